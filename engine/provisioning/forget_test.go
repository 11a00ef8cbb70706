package provisioning

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
)

// However much a cache has seen and forgotten, it still sees a rollout: pods that it has known for long and new ones count together.
func TestACacheThatForgetsStillSeesRollouts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	replica := func(name, revision string, age time.Duration) *corev1.Pod {
		yes := true
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age)), Labels: map[string]string{"pod-template-hash": revision},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-" + revision, Controller: &yes}},
		}}
		pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodRunning
		return pod
	}
	old, cache := replica("web-old", "1", time.Hour), &inventory.Cache{}
	cache.Take(&engine.Snapshot{Pods: []*corev1.Pod{old}}, 1)
	for i := range 3 { // every status is another object
		var pods []*corev1.Pod
		for j := range 600 {
			pod := replica(fmt.Sprint("other-", j), "x", time.Hour)
			pod.Name = fmt.Sprint(pod.Name, "-", i)
			pods = append(pods, pod)
		}
		cache.Take(&engine.Snapshot{Pods: append(pods, old)}, 1)
	}
	cache.Take(&engine.Snapshot{Pods: []*corev1.Pod{old}}, 1)
	pods := cache.Take(&engine.Snapshot{Pods: []*corev1.Pod{old, replica("web-new", "2", time.Minute)}}, 1)
	if r := inventory.RolloutsOf(pods, now); r.Leaving(cache.InfoOf(old)) == "" {
		t.Error("the old pod is about to be replaced, and nobody sees it")
	}
}

func TestAPodThatComesLaterThanTheClockSaysIsNotForgotten(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(time.Minute))},
	}}}
	pod.Namespace, pod.Name, pod.Spec.NodeName = "default", "web", "n1"
	cache := &inventory.Cache{}
	for _, c := range []struct {
		after time.Duration
		came  bool
	}{{0, false}, {2 * time.Minute, true}, {3 * time.Minute, true}, {30 * time.Second, false}} {
		pods := cache.Take(&engine.Snapshot{Pods: []*corev1.Pod{pod}}, 1)
		pods.ReadActivity(now.Add(c.after))
		if came := !pods.ActivityOn("n1").Came.IsZero(); came != c.came {
			t.Errorf("%s later the pod has come: %t", c.after, came)
		}
	}
}
