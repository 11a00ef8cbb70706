package disruption

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
)

// A trial returns the places for the pods of machines and changes nothing: a second trial returns the same.
func TestATrialOfRemovingMachinesLeavesNoTrace(t *testing.T) {
	t.Parallel()
	s, _, pod := oneTypeWorld()
	s.Pods = nil
	for _, name := range []string{"n1", "n2"} {
		claim, node := &v1.NodeClaim{}, &corev1.Node{}
		claim.Name, claim.Status.ProviderID, claim.Spec.NodeClassRef = name, "sim://"+name, s.NodePools[0].Spec.Template.Spec.NodeClassRef
		node.Name, node.Spec.ProviderID = name, "sim://"+name
		node.Labels = map[string]string{v1.NodePoolLabelKey: s.NodePools[0].Name, v1.RegisteredLabelKey: "true", v1.InitializedLabelKey: "true"}
		node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse("10")}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		running := pod.DeepCopy()
		running.Name, running.Spec.NodeName = "on-"+name, name
		running.Status = corev1.PodStatus{Phase: corev1.PodRunning}
		s.NodeClaims, s.Nodes, s.Pods = append(s.NodeClaims, claim), append(s.Nodes, node), append(s.Pods, running)
	}
	d := newPlanner(s, engine.Options{}, nil)
	without := func(gone []*inventory.Machine) *engine.Plan { return d.try(gone, trialOptions{}).plan }
	one, both := without(d.p.Machines[:1]), without(d.p.Machines)
	if len(one.Placements)+len(one.Launches) != 1 || len(one.Unplaced) > 0 {
		t.Errorf("without n1: %+v", one)
	}
	if len(both.Launches) == 0 || len(both.Placements) > 0 || len(both.Unplaced) > 0 {
		t.Errorf("without both: %+v", both)
	}
	again := without(d.p.Machines[:1])
	if len(again.Placements) != len(one.Placements) || len(again.Launches) != len(one.Launches) {
		t.Errorf("asked again: %+v, before: %+v", again, one)
	}
}
