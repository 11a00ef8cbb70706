package disruption

import "tenon.sh/engine/inventory"

// ownersOf counts, for each owner, the pods that would leave the machines.
func (d *planner) ownersOf(machines []*inventory.Machine) map[string]int {
	out := map[string]int{}
	for _, m := range machines {
		for _, info := range d.movers(m) {
			if info.Owner != nil {
				out[info.Owner.Name]++
			}
		}
	}
	return out
}
