package offer_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/offer"
)

// The order of offerings in a request is that of plans: the expected cost of interruptions makes an offering come later.
func TestOffersComeInTheOrderOfWhatNodesCost(t *testing.T) {
	t.Parallel()
	types := []engine.InstanceType{{Name: "t", Offerings: []engine.Offering{
		{Zone: "a", CapacityType: v1.CapacityTypeSpot, Price: 0.05, InterruptionLoss: 0.02},
		{Zone: "b", CapacityType: v1.CapacityTypeSpot, Price: 0.06},
	}}}
	claim := &v1.NodeClaim{}
	claim.Spec.Requirements = []v1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: v1.In, Values: []string{"t"}}}
	list, err := offer.For(types, claim)
	if err != nil || len(list) != 2 || list[0].Zone != "b" {
		t.Errorf("%+v, %v", list, err)
	}
}
