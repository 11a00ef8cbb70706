package disruption_test

import (
	"strings"
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
	"tenon.sh/scenario/workload"
)

// A small budget delays moves that a large one would allow, but does not prevent them. If kube-scheduler would find no room for the pods of the node
// that looks best, other nodes must not wait behind it.
func TestWhatABudgetOfOneNodeDelaysGoesInTheEnd(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{4, 6} {
		s := workload.ScaledDown(workload.Cost(workload.Spread, 300, seed, v1.CapacityTypeOnDemand), scenariotest.Hasty(32), 0.3, seed)
		budget := func(nodes string) {
			for _, p := range s.NodePools {
				p.Spec.Disruption.Budgets = []v1.Budget{{Nodes: nodes}}
			}
		}
		budget("1")
		for {
			plan := disruption.Plan(s, engine.Options{}, nil)
			if len(plan.Disruptions) == 0 {
				break
			}
			s = scenario.MoveOver(s, plan)
			s = scenario.CarryOut(s, provisioning.Plan(s, engine.Options{}, nil))
			s.Now = s.Now.Add(61 * time.Minute)
		}
		budget("100%")
		if plan := disruption.Plan(s, engine.Options{}, nil); len(plan.Disruptions) > 0 {
			t.Errorf("seed %d: with a budget of one node nothing goes any more; without it: %+v", seed, plan.Disruptions[0])
		}
	}
}

// A pass over a small cluster tries a few times without the machines that cannot go. The next pass goes on with the others of that pool.
func TestAPassGoesOnBehindWhatTheLastOneHasTriedInVain(t *testing.T) {
	t.Parallel()
	text := `pool general budget=1
pool other budget=1
type cheap cpu=2 mem=8Gi price=0.10
type dear  cpu=3 mem=8Gi price=0.40
node x cpu=4 mem=8Gi labels=disk:ssd
node y cpu=4 mem=8Gi
pod on-x cpu=1500m node=x
pod on-y cpu=2 node=y
node s pool=general type=cheap zone=a quiet=10m
pod web cpu=2 node=s owner=Deployment age=5h
`
	other := `node o pool=other type=cheap zone=a quiet=10m
pod full cpu=2 node=o owner=Deployment age=5h select=karpenter.sh/nodepool:other
`
	// Kube-scheduler would put big where only fast has a place.
	for _, n := range strings.Fields("1 2 3 4 5") {
		text += strings.ReplaceAll(`node l# pool=general type=dear zone=a quiet=10m
pod big-#  cpu=2 node=l# owner=Deployment age=5h
pod fast-# cpu=1 node=l# owner=Deployment age=5h select=disk:ssd
`, "#", n)
	}
	for name, more := range map[string]string{"one pool": "", "with a pool of which nothing can go": other} {
		file, err := scenario.Parse(text + more)
		if err != nil {
			t.Fatal(err)
		}
		s, passes := *file.Snapshot, newPasses(t)
		gone := ""
		for pass := 0; pass < 3 && gone == ""; pass++ {
			for _, d := range passes.plan(&s, engine.Options{}).Disruptions {
				gone += strings.Join(d.Nodes, " ")
			}
			s.Now = s.Now.Add(2 * time.Minute)
		}
		if gone != "s" {
			t.Errorf("%s: %q goes, want s", name, gone)
		}
	}
}
