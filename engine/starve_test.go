package engine_test

import (
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/scenario"
	"tenon.sh/scenario/workload"
)

// A small budget delays what a large one would allow; it does not prevent it. The node that looks best may be one whose pods
// kube-scheduler would find no room for: others must not wait behind it.
func TestWhatABudgetOfOneNodeDelaysGoesInTheEnd(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{4, 6} {
		s := workload.ScaledDown(workload.Cost(workload.Spread, 300, seed, v1.CapacityTypeOnDemand), hasty(32), 0.3, seed)
		budget := func(nodes string) {
			for _, p := range s.NodePools {
				p.Spec.Disruption.Budgets = []v1.Budget{{Nodes: nodes}}
			}
		}
		budget("1")
		for {
			plan := engine.Disrupt(s, engine.Options{}, nil)
			if len(plan.Disruptions) == 0 {
				break
			}
			s = scenario.MoveOver(s, plan)
			s = scenario.CarryOut(s, engine.Provision(s, engine.Options{}, nil))
			s.Now = s.Now.Add(61 * time.Minute)
		}
		budget("100%")
		if plan := engine.Disrupt(s, engine.Options{}, nil); len(plan.Disruptions) > 0 {
			t.Errorf("seed %d: with a budget of one node nothing goes any more; without it: %+v", seed, plan.Disruptions[0])
		}
	}
}
