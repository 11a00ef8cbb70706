package engine_test

import (
	"testing"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/provider/catalog"
	"tenon.sh/scenario/workload"
)

// Azure's offerings carry labels, and its sizes can turn out in several ways: its catalog is held to what holds for others.
func TestPlansOnAzureAreValidAndNearTheirBound(t *testing.T) {
	t.Parallel()
	for kind, gap := range map[string]float64{workload.Mix: 0.1, workload.Spread: 0.25, workload.GPU: 0.1} { // few pods, some alone on their machine
		s := workload.OnAzure(workload.Cost(kind, 200, 1, v1.CapacityTypeOnDemand, v1.CapacityTypeSpot), kind)
		s.Classes[0].InstanceTypes = catalog.Azure(catalog.AzureRegion, kind == workload.Spread)
		plan := provisioning.Plan(s, engine.Options{}, nil)
		for _, fault := range faults(s, plan) {
			t.Errorf("%s: %s", kind, fault)
		}
		if len(plan.Unplaced) > 0 || plan.Cost.Bound > plan.Cost.LaunchesPerHour*(1+1e-9) || plan.Cost.Gap > gap {
			t.Errorf("%s: %d pods refused, %+v", kind, len(plan.Unplaced), plan.Cost)
		}
	}
}
