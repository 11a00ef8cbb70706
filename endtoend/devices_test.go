package endtoend_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/device"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/simulated"
)

// TestPodsThatClaimDevicesGetMachines has drivers publish two devices of each machine in two slices, late, and the real kube-scheduler
// allocate them: to claims made from a template, and to those that it makes itself for a resource that stands for the later of two classes.
func TestPodsThatClaimDevicesGetMachines(t *testing.T) {
	w := newWorld(t)
	const driver, lag = "gpu.example.com", 5 * time.Second
	types := catalog.KWOK()
	for i := range types {
		if types[i].Name == "c-4x-amd64-linux" {
			pool := device.Template{Driver: driver, Pool: "devices"}
			for n := range 2 {
				pool.Devices = append(pool.Devices, device.Expected{Name: fmt.Sprintf("gpu-%d", n), Shape: device.Shape{Driver: driver,
					Attributes: map[string]device.Value{}, Capacities: map[string]device.Capacity{}}})
			}
			types[i].Claimable = []device.Template{pool}
		}
	}
	w.start("--ignore-dra-requests=false", "--instance-types-file-path="+w.catalogFile(types),
		"--faults="+w.faultsFile(simulated.Fault{What: simulated.FaultSlices, Factor: 1, Parts: 2, Lag: metav1.Duration{Duration: lag}}))
	t.Cleanup(func() {
		w.must(w.DeleteAllOf(w, &resourcev1.DeviceClass{}))
		w.must(w.DeleteAllOf(w, &resourcev1.ResourceClaimTemplate{}, client.InNamespace("default")))
	})
	class := func(name, driver string) {
		c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.Spec.ExtendedResourceName = new("example.com/gpu")
		c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}}
		w.must(w.Create(w, c))
		w.until(time.Minute, func() (bool, string) { // times have a resolution of one second
			return time.Since(c.CreationTimestamp.Time) > time.Second, "the second does not pass"
		})
	}
	class("a-old", "old.example.com")
	class("b-new", driver)
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "default"}}
	template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "b-new"}}}
	w.must(w.Create(w, template))
	w.pool("gpus", nil)
	claims := w.openLedger()
	w.deployWith("claims", 2, `{"resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"gpu"}],"containers":[{"name":"pause","resources":{"claims":[{"name":"gpu"}]}}]}`)
	w.deployWith("named", 2, `{"containers":[{"name":"pause","resources":{"limits":{"example.com/gpu":"1"}}}]}`)
	w.running(4, 2*time.Minute)
	if all := claims.all(w.TB); len(all) != 2 {
		t.Errorf("%d machines were started, want 2: four pods share the four devices of two", len(all))
	}
	var allocated resourcev1.ResourceClaimList
	w.must(w.List(w, &allocated, client.InNamespace("default")))
	devices := map[string]int{}
	for _, c := range allocated.Items {
		for _, r := range c.Status.Allocation.Devices.Results {
			devices[r.Driver+"/"+r.Pool+"/"+r.Device]++
		}
	}
	if len(devices) != 4 || len(allocated.Items) != 4 {
		t.Errorf("%d claims have devices %v, want 4 and 4", len(allocated.Items), devices)
	}
	for _, claim := range claims.all(w.TB) {
		registered, initialized := v1.GetCondition(claim, v1.ConditionRegistered), v1.GetCondition(claim, v1.ConditionInitialized)
		if took := initialized.LastTransitionTime.Sub(registered.LastTransitionTime.Time); initialized.Status != metav1.ConditionTrue || took < 2*lag-2*time.Second {
			t.Errorf("the node of %s counted as initialized (%s) %v after it registered, before its pool was whole", claim.Name, initialized.Status, took)
		}
	}
}

// deployWith makes a Deployment of pause pods whose spec has more to it.
func (w *world) deployWith(name string, replicas int32, spec string) {
	w.Helper()
	w.deploy(name, 0, "100m", "64Mi")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d,"template":{"spec":%s}}}`, replicas, spec)
	w.must(w.Patch(w, d, client.RawPatch("application/strategic-merge-patch+json", patch)))
}
