package engine

import (
	"fmt"
	"math"

	v1 "tenon.sh/api/v1"
)

// balanceFactor is how many times the share of a pool's disruption that a move causes may exceed the share of the pool's price
// that it saves, in the policy Balanced.
const balanceFactor = 2

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

func balanced(score float64) bool { return score >= 1.0/balanceFactor }

// unbalanced says which pool of the policy Balanced the move disturbs more than it saves there: what replacements cost is shared
// among the pools by the price of what they lose.
func (d *disruptor) unbalanced(gone []*host, replacements []Launch) Reason {
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
	for _, pool := range byName(d.s.NodePools) {
		if _, source := price[pool.Name]; !source || pool.Spec.Disruption.ConsolidationPolicy != v1.Balanced {
			continue
		}
		if d.totals == nil {
			d.totals = d.balances()
		}
		share := 0.0
		if all > 0 {
			share = saving * price[pool.Name] / all
		}
		if score := d.totals[pool.Name].score(share, disruption[pool.Name]); !balanced(score) {
			return Reason{Code: NotBalanced, NodePool: pool.Name, Need: fmt.Sprintf("%.2f", 1.0/balanceFactor), Have: fmt.Sprintf("%.2f", score)}
		}
	}
	return Reason{}
}
