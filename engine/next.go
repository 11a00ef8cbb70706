package engine

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// mostNext is how many nodes are named at most that go next.
const mostNext = 10

// next names nodes that would go now if budgets allowed it. Those with the fewest pods come first: they may drain by themselves
// if nothing more is put on them.
func (d *disruptor) next() []string {
	var waiting []*host
	for h, r := range d.why {
		if r.Code == BudgetExhausted && !d.taken[h] && h.node != nil {
			waiting = append(waiting, h)
		}
	}
	slices.SortFunc(waiting, func(a, b *host) int {
		return cmp.Or(cmp.Compare(len(d.moving(a)), len(d.moving(b))), compareNames(a, b))
	})
	var names []string
	for _, h := range waiting[:min(mostNext, len(waiting))] {
		names = append(names, h.node.Name)
	}
	return names
}

// IsLeavingSoon reports whether the taint is the one that nodes get which go next.
func IsLeavingSoon(t corev1.Taint) bool { return t.Key == v1.LeavingSoonTaintKey }
