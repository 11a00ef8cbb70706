package inventory

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
)

func TestPodsThatStandElsewhereInTheListAreCountedOnce(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	for i := range 40 {
		name := fmt.Sprint("web-", i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}}
		pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodRunning
		pods = append(pods, pod)
	}
	cache := &Cache{}
	cache.Take(&engine.Snapshot{Pods: pods[:30]}, 1)
	others := slices.Clone(pods[5:]) // some are gone, some have come, and all stand elsewhere
	slices.Reverse(others)
	census := cache.Take(&engine.Snapshot{Pods: others}, 1)
	want := (&Cache{}).Take(&engine.Snapshot{Pods: others}, 1).PodsOn("n").Bound
	if got := census.PodsOn("n").Bound; !slices.Equal(got, want) {
		t.Errorf("the node has %d pods, want %d, oldest first", len(got), len(want))
	}
	if owner := cache.InfoOf(pods[7]).Owner; len(owner.Infos) != len(others) {
		t.Errorf("the owner has %d pods, want %d", len(owner.Infos), len(others))
	}
}
