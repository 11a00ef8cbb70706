package nodeclaim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
)

// leavingHalves is a cluster whose three nodes are removed by consolidation. Two of them run two of a ReplicaSet's four pods each, the third runs
// a Job's two pods.
func leavingHalves(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, newClaim("general-1"), newClaim("general-2"), newClaim("general-3"))
	w.until("initialized", func() bool {
		return !slices.ContainsFunc(w.claims(), func(c *v1.NodeClaim) bool { return !v1.IsTrue(c, v1.ConditionInitialized) })
	})
	w.create(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web"}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(4))}})
	nodes := w.nodes()
	for i := range 4 {
		w.create(newPod(fmt.Sprintf("web-%d", i), nodes[i/2].Name, w.owned("ReplicaSet", "web", true)))
	}
	for i := range 2 {
		w.create(newPod(fmt.Sprintf("job-%d", i), nodes[2].Name, w.owned("Job", "job", true)))
	}
	for _, claim := range w.claims() {
		v1.SetCondition(claim, v1.ConditionDisruptionReason, metav1.ConditionTrue, string(v1.Underutilized), "", w.clock.Now())
		if err := w.client.Status().Update(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		w.remove(claim)
	}
	return w
}

// owned gives the pod a controller, and makes it ready for long if it is to be ready.
func (w *world) owned(kind, name string, ready bool) func(p *corev1.Pod) {
	apiVersion := map[string]string{"ReplicaSet": "apps/v1", "Job": "batch/v1"}[kind]
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
		if ready {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
	}
}

// Nodes that drain at the same time leave half of a ReplicaSet's pods in place together, also while the cache does not show the evictions
// yet, and also for the next process. The rest goes once others are ready.
func TestDrainsLeaveHalfOfAWorkloadInPlaceUntilOthersAreReady(t *testing.T) {
	t.Parallel()
	w := leavingHalves(t)
	w.unseen = true
	for range 6 {
		w.outside()
		w.round()
	}
	slices.Sort(w.evicted)
	if want := []string{"job-0", "web-0", "web-1"}; !slices.Equal(w.evicted, want) {
		t.Fatalf("%v were evicted while the cache shows none of it, want %v", w.evicted, want)
	}
	w.unseen = false
	for _, name := range w.evicted {
		w.remove(newPod(name, ""))
	}
	w.evicted = nil
	for i := range 2 {
		w.create(newPod(fmt.Sprintf("web-next-%d", i), "", w.owned("ReplicaSet", "web", false)))
	}
	w.restart()
	for range 20 {
		w.pass(time.Minute)
	}
	if slices.Contains(w.evicted, "web-2") || slices.Contains(w.evicted, "web-3") {
		t.Fatalf("%v were evicted though no other pod of web is ready", w.evicted)
	}
	for i := range 2 {
		w.remove(newPod(fmt.Sprintf("web-next-%d", i), ""))
		w.create(newPod(fmt.Sprintf("web-ready-%d", i), "elsewhere", w.owned("ReplicaSet", "web", true)))
	}
	w.until("gone", w.empty)
	if !slices.Contains(w.evicted, "web-2") || !slices.Contains(w.evicted, "web-3") {
		t.Errorf("%v were evicted, want web-2 and web-3 too", w.evicted)
	}
}
