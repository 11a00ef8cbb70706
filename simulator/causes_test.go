package simulator_test

import (
	"math"
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/enginetest"
	"tenon.sh/simulator"
)

func usdOf(r *simulator.Result, cause simulator.CauseName) float64 {
	for _, c := range r.Causes {
		if c.Cause == cause {
			return c.USD
		}
	}
	return 0
}

// Whatever the policy, the cloud and the seed, the causes add up to what was paid above the integral of the bound.
func TestTheCausesAddUpToTheBillAboveTheBound(t *testing.T) {
	enginetest.Long(t)
	t.Parallel()
	for _, policy := range []v1.ConsolidationPolicy{simulator.Baseline, v1.WhenEmpty, v1.WhenEmptyOrUnderutilized} {
		for seed := range uint64(2) {
			c := config(t, shop+"fault kill at=1h capacity=spot share=50%\nfault short at=2h for=1h capacity=spot\n")
			c.Policy, c.Seed, c.Audit, c.For, c.BoundEvery = policy, seed, false, 4*time.Hour, 2*time.Hour
			c.Snapshot.NodeOverheadPrice = 0.01 * float64(seed)
			r := run(t, c)
			sum, shares := 0.0, 0.0
			for _, x := range r.Causes {
				sum += x.USD
				shares += x.Share
			}
			if math.Abs(sum-(r.Cost-r.Bound)) > 0.002 || math.Abs(shares-r.Gap) > 0.002 || r.Bound <= 0 {
				t.Errorf("%s, seed %d: the bill is %v, the bound %v, and the causes add up to %v (%v of the bound, and the gap is %v): %v",
					policy, seed, r.Cost, r.Bound, sum, shares, r.Gap, r.Causes)
			}
			if usdOf(r, simulator.Booting) <= 0 || usdOf(r, simulator.Lost) <= 0 || usdOf(r, simulator.Waiting) > 0 {
				t.Errorf("%s, seed %d: machines boot and are lost, and pods that wait are taken off: %v", policy, seed, r.Causes)
			}
		}
	}
}

// Nodes that stay after most pods have gone are put down to what keeps them.
func TestWhatKeepsNodesIsNamed(t *testing.T) {
	t.Parallel()
	const office = "deployment web x60 cpu=1 mem=1Gi start=5s stop=2s day=0:60,1:60,1.1:12,23.9:12"
	for cause, world := range map[simulator.CauseName]string{
		simulator.ConsolidateAfter: "pool general consolidate-after=24h capacity in (on-demand)\n" + office,
		simulator.Budgets:          "pool general consolidate-after=30s budget=0 capacity in (on-demand)\n" + office,
		simulator.Protected:        "pool general consolidate-after=30s budget=100% capacity in (on-demand)\n" + office + " do-not-disrupt",
		simulator.Policy:           "pool general consolidate-after=30s budget=100% consolidation=WhenEmpty capacity in (on-demand)\n" + office,
	} {
		t.Run(string(cause), func(t *testing.T) {
			t.Parallel()
			c := config(t, "now 2026-03-02T00:00:00Z\ncatalog kwok\ncloud fixed30\n"+world+"\n")
			c.For, c.BoundEvery = 12*time.Hour, time.Hour
			r := run(t, c)
			if usd := usdOf(r, cause); usd < 0.5*(r.Cost-r.Bound) || len(r.Causes) == 0 || r.Causes[0].Cause != cause {
				t.Errorf("%v of %v USD above the bound: %v", usd, r.Cost-r.Bound, r.Causes)
			}
		})
	}
}

// Machines on demand are put down to that where their pool allows spot machines, and spot is sold out.
func TestOnDemandMachinesWhereSpotIsSoldOutAreNamed(t *testing.T) {
	t.Parallel()
	const world = "now 2026-03-02T00:00:00Z\ncatalog aws\ncloud fixed30\ndeployment web x40 cpu=1 mem=2Gi\n" +
		"pool general consolidate-after=30s capacity in (spot,on-demand) arch in (amd64) karpenter.k8s.aws/instance-category in (c,m,r)\n"
	c := config(t, world+"fault short at=0s for=24h capacity=spot\n")
	c.WarmUp, c.For = 0, 2*time.Hour
	if r := run(t, c); usdOf(r, simulator.OnDemand) < 0.5*(r.Cost-r.Bound) {
		t.Errorf("%v of %v USD above the bound: %v", usdOf(r, simulator.OnDemand), r.Cost-r.Bound, r.Causes)
	}
	c = config(t, world)
	c.For = 2 * time.Hour
	if r := run(t, c); usdOf(r, simulator.OnDemand) != 0 {
		t.Errorf("nothing was sold out: %v", r.Causes)
	}
}
