package gang

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/schedulingv1alpha3"
	"tenon.sh/engine"
)

// Whoever remembers pods does so by their address: a pod that has not changed is the same in the next call, unless its group asks for
// something else.
func TestCopiesAreTheSameUntilTheirGroupAsksForSomethingElse(t *testing.T) {
	name := "train"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "a"}}
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	alone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "b"}}
	group := func(key string) *engine.Snapshot {
		g := &schedulingv1alpha3.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}}
		if key != "" {
			g.Spec.SchedulingConstraints = &schedulingv1alpha3.SchedulingConstraints{Topology: []schedulingv1alpha3.TopologyConstraint{{Key: key}}}
		}
		return &engine.Snapshot{Pods: []*corev1.Pod{pod, alone}, PodGroups: []*schedulingv1alpha3.PodGroup{g}}
	}
	known := &Copies{}
	first := InOnePlace(group("zone"), known).Pods
	if first[0] == pod || first[1] != alone || len(pod.Labels) > 0 || pod.Spec.Affinity != nil {
		t.Fatal("the pod itself was changed, or one that has no group was copied")
	}
	if InOnePlace(group("zone"), known).Pods[0] != first[0] {
		t.Error("a pod that has not changed is another copy in the next call")
	}
	other := InOnePlace(group("rack"), known).Pods[0]
	if terms := other.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution; terms[0].TopologyKey != "rack" {
		t.Errorf("the group asks for a rack, its pods for %v", terms)
	}
	if s := group(""); InOnePlace(s, known) != s {
		t.Error("a snapshot in which no group asks for a place is another one")
	}
}
