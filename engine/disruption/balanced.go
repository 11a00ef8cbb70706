package disruption

import (
	"cmp"
	"fmt"
	"math"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
)

const (
	// BalanceFactor bounds a move under the policy Balanced: the move's share of the pool's disruption may be at most BalanceFactor times the share
	// of the pool's price that the move saves.
	BalanceFactor = 2
	// BalanceThreshold is the least score that Balanced accepts.
	BalanceThreshold = 1.0 / BalanceFactor
)

// balance is the price of a pool per hour, and the cost of disrupting all of its nodes.
type balance struct{ price, disruption float64 }

// balances adds up the nodes of each pool. A node of unknown price adds only its disruption.
func (d *planner) balances() map[string]balance {
	out := map[string]balance{}
	for _, m := range d.p.Machines { // ordered by name, because the order decides the last bits of a sum
		if m.Claim == nil || m.Node == nil || m.Pool() == "" {
			continue
		}
		b := out[m.Pool()]
		b.price += d.price(m)
		b.disruption += d.reschedulingCost(m)
		out[m.Pool()] = b
	}
	return out
}

// score divides the share of the price that a move saves by the share of the disruption that it causes. It is 0 if the move saves nothing, and
// infinite if the move causes no disruption.
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

// note adds to the plan, for each pool of a group, whether the move is approved, and its score if the pool has the policy Balanced.
func (c *consolidator) note(p provisioning.Group, r engine.Reason) {
	var nodes, claims []string
	for _, m := range p.Machines {
		nodes, claims = append(nodes, m.Name()), append(claims, m.ClaimName())
	}
	scores := c.scores(p.Machines, p.Launches)
	seen := map[string]bool{}
	for _, m := range p.Machines {
		b := c.budgets[m.Pool()]
		if b == nil || seen[m.Pool()] {
			continue
		}
		seen[m.Pool()] = true
		j := engine.Judgement{NodePool: m.Pool(), Policy: cmp.Or(b.Rules.Pool.Spec.Disruption.ConsolidationPolicy, v1.WhenEmptyOrUnderutilized), Approved: r.OK(), Nodes: nodes, Claims: claims}
		if score, ok := scores[m.Pool()]; ok && (r.OK() || r.Code == engine.NotBalanced) {
			j.Balance = &score
		}
		c.plan.Judgements = append(c.plan.Judgements, j)
	}
}

// unbalanced returns a reason if the move's score is too low for one of the pools that have the policy Balanced.
func (d *planner) unbalanced(gone []*inventory.Machine, replacements []engine.Launch) engine.Reason {
	scores := d.scores(gone, replacements)
	for _, pool := range kube.SortedKeys(scores) {
		if score := scores[pool].Score; !balanced(score) {
			return engine.Reason{Code: engine.NotBalanced, NodePool: pool, Need: fmt.Sprintf("%.2f", BalanceThreshold), Have: fmt.Sprintf("%.2f", score)}
		}
	}
	return engine.Reason{}
}

// scores returns the move's score for each of its pools with the policy Balanced. The pools share the saving in proportion to the prices of the
// machines that they lose.
func (d *planner) scores(gone []*inventory.Machine, replacements []engine.Launch) map[string]engine.Balance {
	var pools []*v1.NodePool
	for _, pool := range d.s.NodePools {
		if pool.Spec.Disruption.ConsolidationPolicy == v1.Balanced {
			pools = append(pools, pool)
		}
	}
	if len(pools) == 0 {
		return nil
	}
	out := map[string]engine.Balance{}
	price, disruption, all := map[string]float64{}, map[string]float64{}, 0.0
	for _, m := range gone {
		price[m.Pool()] += d.price(m)
		disruption[m.Pool()] += d.reschedulingCost(m)
		all += d.price(m)
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
		out[pool.Name] = engine.Balance{
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
