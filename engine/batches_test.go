package engine_test

import (
	"testing"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/workload"
)

// In a large cluster with much to be had, what is replaced comes in parts that budgets can take one by one, and all of it
// together leaves no pod behind.
func TestManyMachinesAreReplacedInParts(t *testing.T) {
	t.Parallel()
	s := workload.Running(workload.Cost(workload.Mix, 0, 1, v1.CapacityTypeOnDemand), 1100, 4400, 1)
	s.NodePools[0].Spec.Disruption.Budgets = []v1.Budget{{Nodes: "100%"}}
	plan := disruption.Plan(s, engine.Options{}, nil)
	gone, most, launches := 0, 0, 0
	for _, d := range plan.Disruptions {
		gone, most, launches = gone+len(d.Nodes), max(most, len(d.Nodes)), launches+len(d.Replacements)
		if len(d.Moves) != len(d.Pods) {
			t.Errorf("disruption of %v: %d pods, and a place for %d", d.Nodes, len(d.Pods), len(d.Moves))
		}
	}
	if gone < 100 || launches == 0 || most > 64 {
		t.Errorf("%d nodes go for %d new ones, %d at once: want at least 100 nodes, some new ones, and at most 64 at once", gone, launches, most)
	}
	after := scenario.MoveOver(s, plan)
	if next := provisioning.Plan(after, engine.Options{}, nil); len(next.Launches)+len(next.Unplaced)+len(next.Placements) > 0 {
		t.Errorf("after all moves: %d launches, %d placements and %d pods without a place, want none", len(next.Launches), len(next.Placements), len(next.Unplaced))
	}
}
