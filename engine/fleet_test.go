package engine_test

import (
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/workload"
)

// Machines for many shapes of pods with GPUs, of which each holds few, cost hardly more than they have to, and the bound says so.
func TestPlansForFleetsWithGPUsAreNearTheirBound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(enginetest.Draws(4)) {
		plan := provisioning.Plan(workload.Fleet(2000, seed), engine.Options{}, nil)
		t.Logf("seed %d: %.2f USD/h, %.2f %% above the bound", seed, plan.Cost.LaunchesPerHour, 100*plan.Cost.Gap)
		if len(plan.Unplaced) > 0 || plan.Cost.Gap > 0.03 || plan.Cost.Gap < 0 {
			t.Errorf("seed %d: %d pods are left, and the plan is %.2f %% above the bound", seed, len(plan.Unplaced), 100*plan.Cost.Gap)
		}
	}
}
