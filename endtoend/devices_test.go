package endtoend_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/simulated"
)

// TestPodsThatClaimDevicesGetMachines has drivers publish two devices of each machine in two slices, late, and the real kube-scheduler
// allocate them: to claims made from a template, and to those that it makes itself for a resource that stands for the later of two classes.
func TestPodsThatClaimDevicesGetMachines(t *testing.T) {
	w := newWorld(t)
	const driver, lag = "gpu.example.com", 5 * time.Second
	w.start("--ignore-dra-requests=false", "--instance-types-file-path="+w.catalogFile(withDevices(driver, map[string]int{"c-4x-amd64-linux": 2})),
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
	w.must(w.Create(w, claimTemplate("b-new", 1)))
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

// withDevices is the usual catalog, in which a driver publishes so many devices of machines of these types.
func withDevices(driver string, count map[string]int) []engine.InstanceType {
	types := catalog.KWOK()
	for i := range types {
		if count[types[i].Name] == 0 {
			continue
		}
		pool := device.Template{Driver: driver, Pool: "devices"}
		for n := range count[types[i].Name] {
			pool.Devices = append(pool.Devices, device.Expected{Name: fmt.Sprintf("gpu-%d", n), Shape: device.Shape{Driver: driver,
				Attributes: map[string]device.Value{}, Capacities: map[string]device.Capacity{}}})
		}
		types[i].Claimable = []device.Template{pool}
	}
	return types
}

// claimTemplate makes claims for so many devices of a class.
func claimTemplate(class string, count int64) *resourcev1.ResourceClaimTemplate {
	t := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "default"}}
	t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, Count: count}}}
	return t
}

// TestAPodMovesToTheDevicesThatItsSuccessorClaims has the template of a running pod's claim ask for two devices, where the claim has one, and
// then go, while the pool's machines drift: one machine with two devices is bought, and without the template the pod stays where it is.
func TestAPodMovesToTheDevicesThatItsSuccessorClaims(t *testing.T) {
	w := newWorld(t)
	const driver = "gpu.example.com"
	types := withDevices(driver, map[string]int{"c-2x-amd64-linux": 1, "c-4x-amd64-linux": 2})
	controller := w.start("--ignore-dra-requests=false", "--instance-types-file-path="+w.catalogFile(types))
	explain := func(what, name string) string {
		return w.tenon("explain", what, name, "--kubeconfig", w.playground.Kubeconfig(), "--catalog-url", strings.Replace(controller.metrics, "http:", "https:", 1)+"/snapshot/catalog")
	}
	t.Cleanup(func() {
		w.must(w.DeleteAllOf(w, &resourcev1.DeviceClass{}))
		w.must(w.DeleteAllOf(w, &resourcev1.ResourceClaimTemplate{}, client.InNamespace("default")))
	})
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}}
	w.must(w.Create(w, class))
	one, two := claimTemplate("gpu", 1), claimTemplate("gpu", 2)
	w.must(w.Create(w, one))
	w.pool("gpus", nil)
	claims := w.openLedger()
	w.deployWith("claims", 1, `{"resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"gpu"}],"containers":[{"name":"pause","resources":{"claims":[{"name":"gpu"}]}}]}`)
	w.running(1, 2*time.Minute)

	w.must(w.Delete(w, one))
	w.must(w.Create(w, two))
	w.relabel("gpus", "two")
	w.until(2*time.Minute, func() (bool, string) {
		left := w.claims()
		return len(left) == 1 && left[0].Labels["tenon.test/generation"] == "two", fmt.Sprintf("%d claims", len(left))
	})
	w.running(1, time.Minute)
	if all := claims.all(w.TB); len(all) != 2 || w.claims()[0].Labels[corev1.LabelInstanceTypeStable] != "c-4x-amd64-linux" {
		t.Errorf("%d machines were started, want 2, the last with two devices: %+v", len(all), all)
	}

	w.must(w.Delete(w, two))
	w.relabel("gpus", "three")
	node := w.pods()[0].Spec.NodeName
	w.until(time.Minute, func() (bool, string) {
		text := explain("node", node)
		return strings.Contains(text, "ResourceClaimTemplate gpu, which it is made from, does not exist"), text
	})
	if all := claims.all(w.TB); len(all) != 2 || len(w.claims()) != 1 || w.claims()[0].DeletionTimestamp != nil {
		t.Errorf("the machine goes, whose pod no other can follow: %+v", all)
	}
	if text := explain("pod", w.pods()[0].Name); !strings.Contains(text, "is to be made from ResourceClaimTemplate gpu, which does not exist; its own asks for 2 devices of DeviceClass gpu") {
		t.Errorf("explain pod says %s", text)
	}
}

// relabel has the nodes of a pool drift.
func (w *world) relabel(pool, generation string) {
	w.Helper()
	var p v1.NodePool
	w.must(w.Get(w, keyOf(pool), &p))
	before := client.MergeFrom(p.DeepCopy())
	p.Spec.Template.Labels = map[string]string{"tenon.test/generation": generation}
	w.must(w.Patch(w, &p, before))
}

// deployWith makes a Deployment of pause pods whose spec has more to it.
func (w *world) deployWith(name string, replicas int32, spec string) {
	w.Helper()
	w.deploy(name, 0, "100m", "64Mi")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d,"template":{"spec":%s}}}`, replicas, spec)
	w.must(w.Patch(w, d, client.RawPatch("application/strategic-merge-patch+json", patch)))
}
