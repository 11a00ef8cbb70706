package disruption

import (
	"cmp"
	"slices"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
)

// mostNext bounds the nodes that next names.
const mostNext = 10

// next names nodes that would be removed now if budgets allowed it. Nodes with the fewest pods come first, because they may become empty by
// themselves if they get no more pods.
func (d *planner) next() []string {
	var waiting []*inventory.Machine
	for m, r := range d.why {
		if r.Code == engine.BudgetExhausted && !d.taken[m] && m.Node != nil {
			waiting = append(waiting, m)
		}
	}
	slices.SortFunc(waiting, func(a, b *inventory.Machine) int {
		return cmp.Or(cmp.Compare(len(d.moving(a)), len(d.moving(b))), provisioning.CompareNames(a, b))
	})
	var names []string
	for _, m := range waiting[:min(mostNext, len(waiting))] {
		names = append(names, m.Node.Name)
	}
	return names
}
