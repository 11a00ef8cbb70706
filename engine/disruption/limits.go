package disruption

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/consolidation"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// caps adds to the search's problem the limits on machines that are removed together: the nodes that each pool's budgets allow, the pods that each
// PodDisruptionBudget lets be evicted, and half of each owner's pods an hour. For each cap, it returns the reason for a machine that the cap keeps.
func (c *consolidator) caps(p *consolidation.Problem, machineOf []int) []func(m *inventory.Machine) engine.Reason {
	var say []func(m *inventory.Machine) engine.Reason
	index := map[any]int{}
	cap := func(key any, left int, why func(m *inventory.Machine) engine.Reason) int {
		i, known := index[key]
		if !known {
			i = len(say)
			index[key] = i
			p.Caps = append(p.Caps, left)
			say = append(say, why)
		}
		return i
	}
	for _, m := range c.sources {
		b := c.budgets[m.Pool()]
		left := b.Left(v1.Underutilized)
		uses := []consolidation.Lot{{Of: cap(b, left, func(m *inventory.Machine) engine.Reason {
			going := slices.DeleteFunc(slices.Clone(c.found), func(other *inventory.Machine) bool { return other.Pool() != m.Pool() })
			if r := b.Refusal(v1.Underutilized); !r.OK() || left <= len(going) {
				return cmp.Or(r, engine.Reason{Code: engine.BudgetExhausted, NodePool: m.Pool(), Have: "no more node now"})
			}
			return engine.Reason{Code: engine.BudgetExhausted, NodePool: m.Pool(), Have: engine.Plural(left, "node") + " now, and more would go together for cheaper machines"}
		}), N: 1}}
		needs, _ := c.guards.Needs(c.evictees(m))
		for _, x := range needs {
			uses = append(uses, consolidation.Lot{Of: cap(x.Guard, x.Left, func(m *inventory.Machine) engine.Reason { return c.guardedBy(x, m) }), N: min(x.N, max(x.Most, 1))})
		}
		owners := c.ownersOf([]*inventory.Machine{m})
		for _, owner := range slices.Sorted(maps.Keys(owners)) {
			uses = append(uses, consolidation.Lot{Of: cap(owner, c.moves.Left(owner), func(m *inventory.Machine) engine.Reason { return c.ownerMoved(owner, m) }), N: owners[owner]})
		}
		p.Machines[machineOf[m.Number]].Uses = uses
	}
	return say
}

// guardedBy returns the reason for a machine that is kept because of the PodDisruptionBudget of x. It names the first of the machine's own pods, or
// x.First if only machines that would be removed with this one have pods of the budget.
func (c *consolidator) guardedBy(x budget.GuardNeed, m *inventory.Machine) engine.Reason {
	needs, _ := c.guards.Needs(c.evictees(m))
	if i := slices.IndexFunc(needs, func(own budget.GuardNeed) bool { return own.Guard == x.Guard }); i >= 0 {
		x = needs[i]
	}
	return engine.Reason{Code: engine.EvictionBlocked, NodePool: m.Pool(), Key: kube.PodID(x.First).String(), Have: fmt.Sprintf("%s allows %d now", x.Name(), x.Left)}
}

// ownerMoved returns the reason for a machine that is kept because too many of the owner's pods would move, on this machine alone or together with
// others.
func (c *consolidator) ownerMoved(owner string, m *inventory.Machine) engine.Reason {
	n := c.ownersOf([]*inventory.Machine{m})[owner]
	need := engine.Plural(n, "pod") + " of this node"
	switch {
	case n == 0:
		need = "more pods of nodes that would go together with this one"
	case n <= c.moves.Left(owner):
		need += ", beside those that go first,"
	}
	return engine.Reason{Code: engine.OwnerMoved, NodePool: m.Pool(), Key: owner, Need: need, Have: engine.Plural(c.moves.Left(owner), "more pod")}
}
