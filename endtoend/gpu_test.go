package endtoend_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine/kube"
)

// lateBy is how long after a node registers its device plugin does.
const lateBy = 15 * time.Second

// TestALateDevicePluginBuysNoSecondMachine has nodes show their shared GPUs long after they are ready: pods that come meanwhile wait
// for the first machine, and none is bound before the devices are there.
func TestALateDevicePluginBuysNoSecondMachine(t *testing.T) {
	w := newWorld(t)
	faults := filepath.Join(t.TempDir(), "faults.json")
	w.must(os.WriteFile(faults, fmt.Appendf(nil, `[{"what": "devices", "resource": "nvidia.com/gpu", "count": 4, "lag": %q}]`, lateBy), 0o600))
	w.start("--feature-gates=NodeOverlay=true", "--faults="+faults)
	t.Cleanup(func() { _ = w.DeleteAllOf(w, &v1alpha1.NodeOverlay{}) })
	slices := overlay("slices", corev1.LabelInstanceTypeStable, "c-8x-amd64-linux")
	slices.Spec.Capacity = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
	w.must(w.Create(w, slices))
	w.pool("gpus", nil)
	w.overlayIs("slices", metav1.ConditionTrue, "sets nvidia.com/gpu of 1 instance type")
	claims := w.openLedger()
	w.deployGPUs("gpus", 2)
	w.until(time.Minute, func() (bool, string) {
		nodes := w.nodes()
		return len(nodes) == 1 && kube.NodeReady(&nodes[0]), "no node is ready"
	})
	w.scale("gpus", 4) // the second wave comes while the node is ready and shows nothing
	w.running(4, time.Minute)
	if all := claims.all(w.TB); len(all) != 1 {
		t.Errorf("%d machines were started, want 1: all four pods share its GPU", len(all))
	}
	w.until(time.Minute, func() (bool, string) { // the ledger hears of the claim when it does
		return v1.IsTrue(claims.all(w.TB)[0], v1.ConditionInitialized), "the machine with pods does not become initialized"
	})
	claim := claims.all(w.TB)[0]
	registered, initialized := v1.GetCondition(claim, v1.ConditionRegistered), v1.GetCondition(claim, v1.ConditionInitialized)
	if took := initialized.LastTransitionTime.Sub(registered.LastTransitionTime.Time); took < lateBy-2*time.Second {
		t.Errorf("the node counted as initialized %v after it registered, before it had devices", took)
	}
	for _, pod := range w.pods() {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && c.LastTransitionTime.Before(&initialized.LastTransitionTime) {
				t.Errorf("pod %s was bound at %v, before the node was initialized at %v", pod.Name, c.LastTransitionTime, initialized.LastTransitionTime)
			}
		}
	}
}

// deployGPUs makes a Deployment of pods that ask for a share of a GPU each.
func (w *world) deployGPUs(name string, replicas int32) {
	w.Helper()
	w.deploy(name, 0, "100m", "64Mi")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d,"template":{"spec":{"containers":[{"name":"pause","resources":{"limits":{"nvidia.com/gpu":"1"}}}]}}}}`, replicas)
	w.must(w.Patch(w, d, client.RawPatch("application/strategic-merge-patch+json", patch)))
}
