package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/disruption"
)

// caps tells the search what may go at a time: of each pool as many nodes as its budgets allow, of each PodDisruptionBudget's
// pods as many as may be evicted, and half of each owner's an hour. For each cap it returns what to say of a machine that it
// keeps.
func (c *consolidation) caps(p *disruption.Problem, machineOf []int) []func(h *host) Reason {
	var say []func(h *host) Reason
	index := map[any]int{}
	cap := func(key any, left int, why func(h *host) Reason) int {
		i, known := index[key]
		if !known {
			i = len(say)
			index[key] = i
			p.Caps = append(p.Caps, left)
			say = append(say, why)
		}
		return i
	}
	for _, h := range c.sources {
		b := c.budgets[h.pool()]
		a := b.rules.allowance(c.s.Now, v1.Underutilized, b.counts)
		uses := []disruption.Lot{{Of: cap(b, max(0, a.Left()-b.used), func(h *host) Reason {
			return Reason{Code: BudgetExhausted, NodePool: b.rules.pool.Name, Have: "no more node now" + b.opening(c.s.Now, v1.Underutilized, a)}
		}), N: 1}}
		needs, _ := c.guards.needs(c.evictees(h))
		for _, x := range needs {
			uses = append(uses, disruption.Lot{Of: cap(x.guard, x.left, func(h *host) Reason { return c.guardedBy(x, h) }), N: min(x.n, max(x.most, 1))})
		}
		owners := c.ownersOf(part{hosts: []*host{h}})
		for _, owner := range slices.Sorted(maps.Keys(owners)) {
			uses = append(uses, disruption.Lot{Of: cap(owner, c.moves.of(owner), func(h *host) Reason {
				r := c.moves.refusal(owner, cmp.Or(c.ownersOf(part{hosts: []*host{h}})[owner], owners[owner]))
				r.NodePool = h.pool()
				return r
			}), N: owners[owner]})
		}
		p.Machines[machineOf[h.number]].Uses = uses
	}
	return say
}

// guardedBy says that the budget keeps pods of the machine, and names the first of them; x.first if it has none and would go with
// machines that have.
func (c *consolidation) guardedBy(x guardNeed, h *host) Reason {
	needs, _ := c.guards.needs(c.evictees(h))
	if i := slices.IndexFunc(needs, func(own guardNeed) bool { return own.guard == x.guard }); i >= 0 {
		x = needs[i]
	}
	return Reason{Code: EvictionBlocked, NodePool: h.pool(), Key: podID(x.first).String(), Have: fmt.Sprintf("%s allows %d now", x.name(), x.left)}
}
