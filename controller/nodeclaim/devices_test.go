package nodeclaim_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/inventory"
)

// As long as a node's driver has published fewer devices than other nodes of its type have, its claim says so, also once the node is initialized.
func TestANodeWithFewerDevicesThanExpectedIsNotConsistent(t *testing.T) {
	t.Parallel()
	const driver = "gpu.example.com"
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general", UID: "general"}}
	w := newWorld(t, pool, newClaim("general-1", func(c *v1.NodeClaim) {
		c.Annotations = map[string]string{v1.RequestedDRADriversAnnotationKey: driver}
	}))
	w.selectors = func([]string, *device.Shape) []device.Answer { return nil }
	w.restart()
	w.until("registered", func() bool { return v1.IsTrue(w.claims()[0], v1.ConditionRegistered) })
	node := w.nodes()[0]
	expected := device.Template{Driver: driver, Devices: []device.Expected{{Name: "one"}, {Name: "two"}}}
	w.update(pool, func() {
		pool.Annotations = map[string]string{v1.LearnedDevicesAnnotationKey: inventory.AsJSON(inventory.WrittenDevices{
			For: pool.Hash(), Types: dra.Learned{node.Labels[corev1.LabelInstanceTypeStable]: {expected}},
		})}
	})
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "published"}}
	slice.Spec = resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &node.Name, Pool: resourcev1.ResourcePool{Name: node.Name, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "one"}},
	}
	w.create(slice)
	w.until("initialized", w.initialized)
	consistent := func() bool { return v1.IsTrue(w.claims()[0], v1.ConditionConsistentStateFound) }
	for range 3 {
		w.pass(10 * time.Minute)
		if consistent() {
			t.Fatalf("one of two devices is published:\n%s", w.describe())
		}
	}
	slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: "two"})
	if err := w.client.Update(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	w.until("consistent", consistent)
}
