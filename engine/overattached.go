package engine

import (
	"maps"
	"slices"
)

// Overattached is a node on which pods have more volumes of a driver than it takes: some of them wait for theirs without an end.
type Overattached struct {
	Node, Driver string
	Volumes      int // of the driver, that pods of the node have or that are attached there
	Limit        int
}

// FindOverattached lists such nodes, in order of the snapshot's nodes.
func FindOverattached(s *Snapshot) []Overattached {
	p := readProblem(s, Options{}, (&Memo{}).take(s, 1), nil)
	var out []Overattached
	for _, h := range p.hosts {
		if h.node == nil {
			continue
		}
		attached := p.wishes.volumes.attachedTo(h.name(), h.expectedType(), h.bound)
		for _, driver := range slices.Sorted(maps.Keys(attached.used)) {
			if limit, known := attached.limits[driver]; known && attached.used[driver] > limit {
				out = append(out, Overattached{h.name(), driver, attached.used[driver], limit})
			}
		}
	}
	return out
}
