package provision_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/deviceselector"
)

// That the devices of some machines are more than can be written on their pool is told on the pool once an hour.
func TestAPoolIsToldOfDevicesThatAreTooManyToRemember(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "one", time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC))
	v1.InitializeConditions(claim, claim.CreationTimestamp.Time)
	node.Labels[v1.InitializedLabelKey] = "true"
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "devices"}, Spec: resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node.Name,
		Pool: resourcev1.ResourcePool{Name: node.Name, ResourceSliceCount: 1}}}
	for i := range 128 {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"note": {StringValue: new(strings.Repeat("x", 600))}}})
	}
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, slice, clustertest.Pending("web", "5000"))
	w.Cluster.Selectors = deviceselector.New().Ask
	r := newReconciler(w)
	for range 3 {
		w.Must(r.Reconcile(w))
		w.Clock.Step(10 * time.Minute)
	}
	if n := w.Events()["NodePool DevicesForgotten"]; n != 1 {
		t.Errorf("told %d times in half an hour, want once: %v", n, w.Events())
	}
	w.Clock.Step(time.Hour)
	w.Must(r.Reconcile(w))
	if n := w.Events()["NodePool DevicesForgotten"]; n != 2 {
		t.Errorf("told %d times in one and a half hours, want twice", n)
	}
}
