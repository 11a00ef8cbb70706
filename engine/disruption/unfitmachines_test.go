package disruption_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// The machine stays until its pool has recorded that it did not fit, because the next machine would be the same.
func TestAMachineThatDoesNotTakeItsPodStaysUntilItsPoolRemembersThat(t *testing.T) {
	t.Parallel()
	s := scenariotest.Unfit(t, scenariotest.Tainted("example.com/a"), "pods web x1 cpu=1")
	s.NodePools[0].Spec.Disruption.ConsolidateAfter = v1.DurationOf(0)
	v1.SetCondition(s.NodeClaims[0], v1.ConditionConsolidatable, metav1.ConditionTrue, "", "", s.Now)
	plan := disruption.Plan(s, engine.Options{}, nil)
	if len(plan.Disruptions) > 0 || len(plan.Kept) != 1 || plan.Kept[0].Reason.Code != engine.PodsExpected {
		t.Fatalf("before: %+v, kept %+v", plan.Disruptions, plan.Kept)
	}
	scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
	if plan = disruption.Plan(s, engine.Options{}, nil); len(plan.Disruptions) != 1 {
		t.Errorf("after: %+v, kept %+v", plan.Disruptions, plan.Kept)
	}
}

func TestALaunchInsteadOfAMachineThatDoesNotTakeItsPodIsRight(t *testing.T) {
	t.Parallel()
	s := scenariotest.Unfit(t, scenariotest.Tainted("example.com/a"), "pods web x1 cpu=1", "type three cpu=3 mem=6Gi zones=a price=0.09")
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if r := disruption.Check(plan.Launches[0], s); !r.OK() {
		t.Errorf("the launch is dropped: %v", r)
	}
}
