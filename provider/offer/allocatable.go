package offer

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
)

// Allocatable is what pods can use of an instance type: its capacity less its overhead, and of the memory less what huge
// pages take.
func Allocatable(t *engine.InstanceType) corev1.ResourceList {
	list := maps.Clone(t.Capacity)
	for name, has := range list {
		left := has.DeepCopy()
		left.Sub(t.Overhead[name])
		if name == corev1.ResourceMemory {
			for other, pages := range t.Capacity {
				if strings.HasPrefix(string(other), corev1.ResourceHugePagesPrefix) {
					left.Sub(pages)
				}
			}
		}
		if left.Sign() < 0 {
			left = *resource.NewQuantity(0, has.Format)
		}
		list[name] = left
	}
	return list
}
