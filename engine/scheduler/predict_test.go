package scheduler_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/scheduler"
	"tenon.sh/scenario"
)

func TestAClaimIsPredictedFromItsStatusOrAsTheSmallestItMayBecome(t *testing.T) {
	t.Parallel()
	f, err := scenario.Parse(strings.Join([]string{"pool general taint=a=b:NoSchedule", "type large cpu=8 mem=16Gi zones=a,b,c price=0.1", "type small cpu=4 mem=16Gi zones=a,b price=0.2",
		"claim launched pool=general type=large zone=c", "claim open pool=general type=large,small"}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, byName := f.Snapshot, map[string]*v1.NodeClaim{}
	for _, c := range s.NodeClaims {
		byName[c.Name] = c
	}
	node := scheduler.PredictClaim(s, byName["launched"])
	if l := node.Labels; l[corev1.LabelInstanceTypeStable] != "large" || l[corev1.LabelTopologyZone] != "c" || l[corev1.LabelHostname] != "launched" {
		t.Errorf("launched: %v", l)
	}
	if cpu := node.Status.Allocatable[corev1.ResourceCPU]; cpu.String() != "8" || len(node.Spec.Taints) != 1 {
		t.Errorf("launched: cpu %s, taints %v", cpu.String(), node.Spec.Taints)
	}
	open := byName["open"]
	open.Spec.Requirements = append(open.Spec.Requirements, v1.Requirement{Key: corev1.LabelTopologyZone, Operator: v1.In, Values: []string{"b", "a"}})
	node = scheduler.PredictClaim(s, open)
	if l := node.Labels; l[corev1.LabelInstanceTypeStable] != "small" || l[corev1.LabelTopologyZone] != "b" {
		t.Errorf("open: %v", l)
	}
	s.Classes = nil
	if node = scheduler.PredictClaim(s, open); node == nil {
		t.Error("nothing is predicted for a claim whose class is gone")
	}
}
