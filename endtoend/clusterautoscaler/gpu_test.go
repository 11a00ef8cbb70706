package clusterautoscaler_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/deploy"
)

// TestNobodyBuysTwiceForAPodThatBothCouldServe: a GPU group and a GPU pool with the same taint. The group serves the pods that it says
// it does, the pool the others; one that the group promised and did not serve gets its machine when the grace is over.
func TestNobodyBuysTwiceForAPodThatBothCouldServe(t *testing.T) {
	const grace = time.Minute
	w := newWorld(t)
	began := w.audited()
	manifests, err := deploy.RBAC.ReadFile("rbac/settings.yaml")
	w.must(err)
	w.applyAll(slices.DeleteFunc(w.objectsIn(manifests), func(o *unstructured.Unstructured) bool { return o.GetLabels()[deploy.RightsFor] != "ClusterAutoscaler" }))
	log := w.startTenon("--cluster-autoscaler-grace", grace.String())
	g := &group{world: w, name: "gpu-group", serves: "training", has: size("4", "16Gi", "nvidia.com/gpu"), most: 1,
		taint: &corev1.Taint{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}
	defer g.end()
	pools := append(w.example("nodepool.yaml"), w.example("gpu-nodepool.yaml")...)
	w.applyAll(pools)
	defer w.removeAll(pools)
	training := w.example("training.yaml")
	for _, o := range training { // on a busy machine the commands below take longer than the example's half a minute
		w.must(unstructured.SetNestedField(o.Object, "90s", "spec", "template", "metadata", "annotations", v1.LaunchDelayAnnotationKey))
	}
	w.applyAll(training)
	defer w.removeAll(training)

	// Two pods, and a group that may have one node.
	w.awaitWaiting("training", 2)
	served := g.look()
	if len(served) != 1 {
		t.Fatalf("the group grows for %v", served)
	}
	w.until(time.Minute, func() (bool, string) {
		text := w.tenon("explain", "pod", served[0])
		return strings.Contains(text, "it waits for another autoscaler") && strings.Contains(text, "it scales up group gpu-group for the pod"), text
	})
	for _, name := range w.waiting("training") {
		if name != served[0] {
			w.wants(w.tenon("explain", "pod", name), "it waits for another autoscaler", "tenon.sh/launch-delay lets another autoscaler come first")
		}
	}
	if claims := w.claims("gpu"); len(claims) > 0 {
		t.Fatalf("%d machines before anybody had to start one", len(claims))
	}
	g.boot()
	w.awaitRunning("training", 2, 4*time.Minute)
	if claims := w.claims("gpu"); len(claims) != 1 {
		t.Errorf("%d machines for the one pod that the group did not take", len(claims))
	}
	w.wants(w.tenon("nodes"), "gpu-group-1", "gpu")
	if text := w.tenon("doctor", "--cloud=false"); strings.Contains(text, "NodePool gpu") {
		t.Error("the doctor warns of pods that say who comes first")
	}

	// A third pod, which waits for less. The group says that it grows and crashes: the node never comes.
	g.most = 2
	third := w.alone("training", "30s")
	defer func() { w.must(client.IgnoreNotFound(w.Delete(w, third))) }()
	w.awaitWaiting("training", 1)
	if served = g.look(); len(served) != 1 {
		t.Fatalf("the group grows for %v", served)
	}
	said := time.Now()
	w.until(grace+time.Minute, func() (bool, string) {
		n := len(w.claims("gpu"))
		return n == 2, fmt.Sprintf("%d machines", n)
	})
	if waited := w.newest("gpu").CreationTimestamp.Sub(said); waited < grace-2*time.Second {
		t.Errorf("Tenon bought %v after the group had said that it grows, and was to wait %v", waited, grace)
	}
	w.awaitRunning("training", 3, 3*time.Minute)

	w.must(w.Delete(w, third))
	w.removeAll(training)
	w.until(time.Minute, func() (bool, string) {
		n := len(w.claims("gpu"))
		return n == 0, fmt.Sprintf("%d machines are left", n)
	})
	w.untouched(began, "gpu-group-")
	if lines := w.errorsIn(log); len(lines) > 0 {
		t.Errorf("Tenon has logged %d errors, the first: %s", len(lines), lines[0])
	}
}

// alone makes a pod as the Deployment would, that has machines wait for so long.
func (w *world) alone(deployment, delay string) *corev1.Pod {
	w.Helper()
	d := &appsv1.Deployment{}
	w.must(w.Get(w, client.ObjectKey{Namespace: "default", Name: deployment}, d))
	template := d.Spec.Template
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: deployment + "-alone", Labels: template.Labels}, Spec: template.Spec}
	pod.Annotations = map[string]string{v1.LaunchDelayAnnotationKey: delay}
	pod.Labels = maps.Clone(pod.Labels)
	w.must(w.Create(w, pod))
	return pod
}

// newest is the claim of the pool that was made last.
func (w *world) newest(pool string) (out v1.NodeClaim) {
	for _, c := range w.claims(pool) {
		if out.CreationTimestamp.Before(&c.CreationTimestamp) {
			out = c
		}
	}
	return out
}
