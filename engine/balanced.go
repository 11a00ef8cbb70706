package engine

import (
	"cmp"
	"fmt"
	"math"

	v1 "tenon.sh/api/v1"
)

const (
	// BalanceFactor is how many times the share of a pool's disruption that a move causes may exceed the share of the pool's
	// price that it saves, in the policy Balanced.
	BalanceFactor = 2
	// BalanceThreshold is the least score of a move that Balanced approves of.
	BalanceThreshold = 1.0 / BalanceFactor
)

// balance is what a pool costs an hour, and what disrupting all of it would.
type balance struct{ price, disruption float64 }

// balances adds up every node with a pool's label. Those of unknown price count with their pods only.
func (d *disruptor) balances() map[string]balance {
	out := map[string]balance{}
	for _, h := range d.p.hosts { // ordered by name: sums depend on the order in their last bits
		if h.claim == nil || h.node == nil || h.pool() == "" {
			continue
		}
		b := out[h.pool()]
		b.price += d.price(h)
		b.disruption += d.reschedulingCost(h)
		out[h.pool()] = b
	}
	return out
}

// score compares the share of the price that a move saves with the share of the disruption that it causes. A move that saves
// nothing has none, one that disturbs nothing an infinite one.
func (b balance) score(saving, disruption float64) float64 {
	if !(b.price > 0) || !(b.disruption > 0) || !(saving > 0) {
		return 0
	}
	if disruption <= 0 {
		return math.Inf(1)
	}
	return (saving / b.price) / (disruption / b.disruption)
}

func balanced(score float64) bool { return score >= BalanceThreshold }

// Judgement is what became of a move that consolidation weighed, for one of the pools that it would take machines from.
type Judgement struct {
	NodePool string
	Policy   v1.ConsolidationPolicy
	// Approved is true for moves that begin.
	Approved bool
	// Nodes and Claims are those that would go, of all pools.
	Nodes, Claims []string
	// Balance is nil for other policies than Balanced, and where something else speaks against the move.
	Balance *Balance
}

// Balance is the score of a move under the policy Balanced: the share of the pool's price that it saves, against the share of
// the pool's disruption that it causes.
type Balance struct{ Score, Saving, Disruption float64 }

// note writes down what was decided of a move, and what speaks against it.
func (c *consolidation) note(p part, r Reason) {
	var nodes, claims []string
	for _, h := range p.hosts {
		nodes, claims = append(nodes, h.name()), append(claims, h.claimName())
	}
	scores := c.scores(p.hosts, p.launches)
	seen := map[string]bool{}
	for _, h := range p.hosts {
		b := c.budgets[h.pool()]
		if b == nil || seen[h.pool()] {
			continue
		}
		seen[h.pool()] = true
		j := Judgement{NodePool: h.pool(), Policy: cmp.Or(b.rules.pool.Spec.Disruption.ConsolidationPolicy, v1.WhenEmptyOrUnderutilized), Approved: r.OK(), Nodes: nodes, Claims: claims}
		if score, ok := scores[h.pool()]; ok && (r.OK() || r.Code == NotBalanced) {
			j.Balance = &score
		}
		c.plan.Judgements = append(c.plan.Judgements, j)
	}
}

// unbalanced says which pool of the policy Balanced the move disturbs more than it saves there.
func (d *disruptor) unbalanced(gone []*host, replacements []Launch) Reason {
	scores := d.scores(gone, replacements)
	for _, pool := range sortedKeys(scores) {
		if score := scores[pool].Score; !balanced(score) {
			return Reason{Code: NotBalanced, NodePool: pool, Need: fmt.Sprintf("%.2f", BalanceThreshold), Have: fmt.Sprintf("%.2f", score)}
		}
	}
	return Reason{}
}

// scores are those of the move for the pools of the policy Balanced: what replacements cost is shared among the pools by the
// price of what they lose.
func (d *disruptor) scores(gone []*host, replacements []Launch) map[string]Balance {
	var pools []*v1.NodePool
	for _, pool := range d.s.NodePools {
		if pool.Spec.Disruption.ConsolidationPolicy == v1.Balanced {
			pools = append(pools, pool)
		}
	}
	if len(pools) == 0 {
		return nil
	}
	out := map[string]Balance{}
	price, disruption, all := map[string]float64{}, map[string]float64{}, 0.0
	for _, h := range gone {
		price[h.pool()] += d.price(h)
		disruption[h.pool()] += d.reschedulingCost(h)
		all += d.price(h)
	}
	saving := all
	for i := range replacements {
		saving -= replacements[i].Price
	}
	if d.totals == nil {
		d.totals = d.balances()
	}
	for _, pool := range pools {
		if _, source := price[pool.Name]; !source {
			continue
		}
		share := 0.0
		if all > 0 {
			share = saving * price[pool.Name] / all
		}
		total := d.totals[pool.Name]
		out[pool.Name] = Balance{
			Score: total.score(share, disruption[pool.Name]), Saving: ratio(share, total.price), Disruption: ratio(disruption[pool.Name], total.disruption),
		}
	}
	return out
}

func ratio(x, of float64) float64 {
	if !(of > 0) {
		return 0
	}
	return x / of
}
