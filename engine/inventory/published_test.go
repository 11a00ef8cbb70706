package inventory_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
)

func TestWhatDriversPublishIsReadOnceUntilItChanges(t *testing.T) {
	t.Parallel()
	slice := func(generation int64) *resourcev1.ResourceSlice {
		node := "n"
		return &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: "n", Generation: generation, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "a"}}}}
	}
	cache, one := &inventory.Cache{}, slice(1)
	of := func(list ...*resourcev1.ResourceSlice) any {
		return cache.PublishedIn(&engine.Snapshot{ResourceSlices: list})
	}
	first := of(one)
	if of(one) != first {
		t.Error("the same slices are read again")
	}
	if of(slice(2)) == first || of() == first || of(one, slice(2)) == first {
		t.Error("other slices are not read")
	}
	if none := (&inventory.Cache{}).PublishedIn(&engine.Snapshot{}); none == nil || len(none.Drivers(&corev1.Node{})) > 0 {
		t.Error("a cluster without slices has drivers")
	}
}
