package market

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
)

// share makes types use the values of another list where they are equal; both lists are ordered by name. Most classes differ in few values,
// and labels are most of a catalog.
func share(types, with []engine.InstanceType) {
	for i := range types {
		t := &types[i]
		at, found := slices.BinarySearchFunc(with, t.Name, func(o engine.InstanceType, name string) int { return strings.Compare(o.Name, name) })
		if !found {
			continue
		}
		other := &with[at]
		if maps.EqualFunc(t.Labels, other.Labels, slices.Equal[[]string]) {
			t.Labels = other.Labels
		}
		if sameList(t.Capacity, other.Capacity) {
			t.Capacity = other.Capacity
		}
		if sameList(t.Overhead, other.Overhead) {
			t.Overhead = other.Overhead
		}
		if maps.Equal(t.AttachLimits, other.AttachLimits) {
			t.AttachLimits = other.AttachLimits
		}
		if reflect.DeepEqual(t.Offerings, other.Offerings) {
			t.Offerings = other.Offerings
		}
	}
}

func sameList(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 && x.Format == y.Format })
}
