package disruption

import "tenon.sh/engine/inventory"

// ownersOf returns, for each owner, the number of its pods that would leave the machines.
func (cs *candidates) ownersOf(machines []*inventory.Machine) map[string]int {
	out := map[string]int{}
	for _, m := range machines {
		for _, info := range cs.movers(m) {
			if info.Owner != nil {
				out[info.Owner.Name]++
			}
		}
	}
	return out
}
