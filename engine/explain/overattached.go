package explain

import (
	"maps"
	"slices"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
)

// Overattached is a node on which pods have more volumes of a driver than it takes: some of them wait for theirs without an end.
type Overattached struct {
	Node, Driver string
	Volumes      int // of the driver, that pods of the node have or that are attached there
	Limit        int
}

// FindOverattached lists such nodes, in order of the snapshot's nodes.
func FindOverattached(s *engine.Snapshot) []Overattached {
	p := provisioning.ReadProblem(s, engine.Options{}, (&inventory.Cache{}).Take(s, 1), nil)
	var out []Overattached
	for _, m := range p.Machines {
		if m.Node == nil {
			continue
		}
		attached := p.Constraints.Volumes.AttachedTo(m.Name(), m.ExpectedType(), m.Bound)
		for _, driver := range slices.Sorted(maps.Keys(attached.Used)) {
			if limit, known := attached.Limits[driver]; known && attached.Used[driver] > limit {
				out = append(out, Overattached{m.Name(), driver, attached.Used[driver], limit})
			}
		}
	}
	return out
}
