package inventory

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
)

// manyPods is enough pods for several goroutines, with owners and nodes that all goroutines meet.
func manyPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range 4*fewUnread + 7 {
		name, owner := fmt.Sprint("web-", i), fmt.Sprint("web-", i%7)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": owner, "pod-template-hash": "1"}}}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner + "-1", UID: types.UID(owner), Controller: new(true)}}
		pod.Spec.NodeName, pod.Status.Phase = fmt.Sprint("n-", i%(3*fewRolls+1)), corev1.PodRunning
		cpu := resource.MustParse(fmt.Sprint(1+i%3, "00m"))
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: cpu}}}}
		switch i % 50 {
		case 0:
			pod.Spec.NodeName = ""
		case 1:
			pod.Status.Phase = corev1.PodFailed
		case 2:
			pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
		}
		pods = append(pods, pod)
	}
	return pods
}

func TestManyGoroutinesReadPodsAsOneDoes(t *testing.T) {
	t.Parallel()
	pods := manyPods()
	one, many := &Cache{}, &Cache{}
	compareCaches(t, one, many, pods[:2*fewUnread])
	compareCaches(t, one, many, pods[fewUnread:]) // of whose nodes and owners half are known
}

// compareCaches has one goroutine read the pods into the first cache, and several into the other.
func compareCaches(t *testing.T, one, many *Cache, pods []*corev1.Pod) {
	t.Helper()
	s := &engine.Snapshot{Pods: pods}
	a, b := one.Take(s, 1), many.Take(s, 3)
	sizes := func(c *Cache) []int {
		return []int{len(c.Pods), len(c.podsByNode), len(c.kinds), len(c.works), len(c.Owned)}
	}
	if got, want := sizes(many), sizes(one); !slices.Equal(got, want) {
		t.Fatalf("pods, nodes, kinds, workloads and owners: %d, want %d", got, want)
	}
	for i, pod := range pods {
		x, y := a.all[i], b.all[i]
		if x.id != y.id || x.counts != y.counts || x.Mounts != y.Mounts || one.RequestsFor(x).Text != many.RequestsFor(y).Text || one.NextRequests(x).Text != many.NextRequests(y).Text {
			t.Fatalf("pod %s is read as %+v, want %+v", pod.Name, y, x)
		}
		if y.Labels != many.kindOf(pod) || y.Labels.Sample != x.Labels.Sample || y.Owner != many.ownerNamed(x.Owner.Name) || y.workload != many.workloadOf(x.workload.name) {
			t.Fatalf("pod %s shares nothing with those that other goroutines have read", pod.Name)
		}
		if y.requests != many.readRequests(pod) || !y.Mounts && many.ConstraintsOf(y) != many.constraintClasses[one.ConstraintsOf(x).Text] {
			t.Fatalf("what pod %s asks for is shared with no other", pod.Name)
		}
		if name := pod.Spec.NodeName; name != "" && (y.node != many.podsByNode[name] || !slices.Equal(y.node.Bound, x.node.Bound)) {
			t.Fatalf("node %s has other pods", name)
		}
	}
	for name, o := range one.Owned {
		if got := many.Owned[name]; len(got.Infos) != len(o.Infos) {
			t.Errorf("%s has %d pods, want %d", name, len(got.Infos), len(o.Infos))
		}
	}
}
