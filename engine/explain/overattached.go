package explain

import (
	"maps"
	"slices"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
)

// Overattached is a node whose pods have more volumes of a driver than the node can attach, so some of the pods wait forever.
type Overattached struct {
	Node, Driver string
	Volumes      int // of the driver: volumes of the node's pods, and attached volumes
	Limit        int
}

// FindOverattached lists the overattached nodes of the snapshot by driver, in the order of the snapshot's nodes.
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
