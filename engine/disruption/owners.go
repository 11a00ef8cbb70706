package disruption

import (
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
)

// newOwners counts the pods that leave the machines, by owners that are new.
func (d *planner) newOwners(hosts []*inventory.Machine) map[string]int {
	var out map[string]int
	for _, h := range hosts {
		for _, f := range d.movers(h) {
			if o := f.Owner; o != nil && d.moves.IsNew(o) {
				if out == nil {
					out = map[string]int{}
				}
				out[o.Name]++
			}
		}
	}
	return out
}

// ownersOf counts the pods of each owner that a part moves.
func (c *consolidator) ownersOf(p provisioning.Group) map[string]int {
	out := map[string]int{}
	for _, h := range p.Machines {
		for _, f := range c.movers(h) {
			if f.Owner != nil {
				out[f.Owner.Name]++
			}
		}
	}
	return out
}
