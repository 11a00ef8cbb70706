package disruption

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
)

func TestTheScoreOfBalancedMoves(t *testing.T) {
	t.Parallel()
	pool := balance{58.08, 90}
	for name, c := range map[string]struct {
		pool               balance
		saving, disruption float64
		want               bool
	}{
		"much for little":                        {pool, 7.26, 4, true},
		"fair":                                   {pool, 4.84, 5, true},
		"little for much":                        {pool, 2.42, 9, false},
		"nothing":                                {pool, 0, 11, false},
		"exactly half":                           {balance{48.40, 90}, 2.42, 9, true},
		"a cheap move in a busier pool":          {balance{58.08, 117}, 4.84, 5, true},
		"a dear one":                             {balance{58.08, 117}, 4.84, 32, false},
		"ten times everything changes nothing":   {balance{580.8, 900}, 7.26, 4, true},
		"nothing is disturbed":                   {pool, 1, 0, true},
		"nothing is saved and nothing disturbed": {pool, 0, 0, false},
		"a pool without a price":                 {balance{0, 90}, 1, 1, false},
		"a pool of unknown price":                {balance{math.NaN(), 90}, 1, 1, false},
		"a price that is none":                   {pool, math.NaN(), 1, false},
		"a move that costs":                      {balance{100, 100}, -5, 10, false},
		"one of ten equal nodes":                 {balance{100, 100}, 10, 10, true},
		"the only node":                          {balance{4.84, 2}, 4.84, 2, true},
	} {
		if got := balanced(c.pool.score(c.saving, c.disruption)); got != c.want {
			t.Errorf("%s: score %g", name, c.pool.score(c.saving, c.disruption))
		}
	}
	if spot, dear := (balance{14.5, 90}).score(1.45, 4), (balance{48.4, 90}).score(4.84, 4); math.Abs(spot-dear) > 1e-9 {
		t.Errorf("spot %g and on demand %g: shares count, not prices", spot, dear)
	}
}

// Prices and disruption costs are added up by pool, and every pool with the policy Balanced has to approve a move. The cases use five pools.
func TestMovesAreJudgedByTheirPools(t *testing.T) {
	t.Parallel()
	s := &engine.Snapshot{Classes: []engine.Class{{InstanceTypes: []engine.InstanceType{{Name: "two", Offerings: []engine.Offering{{Zone: "a", CapacityType: "on-demand", Price: 4.84}}}}}}}
	machine := func(pool, name, kind string, pods int) *inventory.Machine {
		labels := map[string]string{v1.NodePoolLabelKey: pool, corev1.LabelInstanceTypeStable: kind, corev1.LabelTopologyZone: "a", v1.CapacityTypeLabelKey: "on-demand"}
		m := &inventory.Machine{MachineInfo: &inventory.MachineInfo{Node: &corev1.Node{}, Claim: &v1.NodeClaim{}, Labels: labels, PoolName: pool}}
		m.Node.Name, m.Claim.Name = name, name
		m.Price, _ = inventory.NewPriceBook(s).Price(labels, nil)
		m.Pods = &inventory.NodePods{}
		for range pods {
			pod := &corev1.Pod{}
			m.Pods.Bound, m.Pods.Infos = append(m.Pods.Bound, pod), append(m.Pods.Infos, &inventory.PodInfo{Pod: pod})
		}
		m.Bound = m.Pods.Bound
		return m
	}
	for name, policy := range map[string]v1.ConsolidationPolicy{"even": v1.Balanced, "other": v1.Balanced, "free": v1.WhenEmptyOrUnderutilized} {
		pool := &v1.NodePool{}
		pool.Name, pool.Spec.Disruption.ConsolidationPolicy = name, policy
		s.NodePools = append(s.NodePools, pool)
	}
	var hosts []*inventory.Machine
	for i := range 5 {
		hosts = append(hosts, machine("even", string(rune('a'+i)), "two", 1))
	}
	full, spare, unknown, free := machine("other", "f", "two", 50), machine("other", "g", "two", 0), machine("even", "h", "gone", 1), machine("free", "i", "two", 90)
	hosts = append(hosts, full, spare, unknown, free)
	d := &planner{candidates: &candidates{s: s, p: &provisioning.Problem{Reading: &provisioning.Reading{Machines: hosts}}}}
	d.totals = d.balances()
	if b := d.totals["even"]; math.Abs(b.price-5*4.84) > 1e-9 || b.disruption != 12 {
		t.Errorf("pool even: %+v, want 24.20 and 12: a node of unknown price disturbs all the same", b)
	}
	for name, c := range map[string]struct {
		gone []*inventory.Machine
		new  []engine.Launch
		want bool
	}{
		"one of equal nodes":                     {hosts[:1], nil, true},
		"a full node for nothing cheaper":        {[]*inventory.Machine{full}, []engine.Launch{{Price: 4.80}}, false},
		"an empty one":                           {[]*inventory.Machine{spare}, nil, true},
		"a node of unknown price saves nothing":  {[]*inventory.Machine{unknown}, nil, false},
		"other policies do not ask":              {[]*inventory.Machine{free}, []engine.Launch{{Price: 4.83}}, true},
		"one pool of two says no":                {[]*inventory.Machine{hosts[0], full}, []engine.Launch{{Price: 9.6}}, false},
		"a pool that asks and one that does not": {[]*inventory.Machine{hosts[0], free}, nil, true},
	} {
		if r := d.unbalanced(c.gone, c.new); r.OK() != c.want {
			t.Errorf("%s: %s", name, r)
		}
	}
	d.totals = map[string]balance{}
	if r := d.unbalanced(hosts[:1], nil); r.OK() {
		t.Error("a pool that is not among the totals agrees")
	}
}
