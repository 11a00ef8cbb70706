package disruption

import "tenon.sh/engine/inventory"

// ownersOf counts the pods of each owner that leave the machines.
func (d *planner) ownersOf(machines []*inventory.Machine) map[string]int {
	out := map[string]int{}
	for _, h := range machines {
		for _, f := range d.movers(h) {
			if f.Owner != nil {
				out[f.Owner.Name]++
			}
		}
	}
	return out
}
