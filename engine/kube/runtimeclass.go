package kube

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// ApplyRuntimeClass applies the pod's RuntimeClass to its spec like admission: overhead, node selector and tolerations. It returns why admission
// refuses the pod. It returns "" if admission accepts the pod. A class that is not in classes changes nothing.
func ApplyRuntimeClass(spec *corev1.PodSpec, classes []*nodev1.RuntimeClass) (refused string) {
	class := runtimeClassOf(spec, classes)
	if class == nil {
		return ""
	}
	if class.Overhead != nil {
		if spec.Overhead != nil && !equality.Semantic.DeepEqual(spec.Overhead, class.Overhead.PodFixed) {
			return fmt.Sprintf("its overhead is not that of RuntimeClass %s", class.Name)
		}
		spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	}
	if class.Scheduling == nil {
		return ""
	}
	selector := maps.Clone(class.Scheduling.NodeSelector)
	for _, key := range SortedKeys(spec.NodeSelector) {
		value := spec.NodeSelector[key]
		if other, both := selector[key]; both && other != value {
			return fmt.Sprintf("it asks for nodes with %s=%s, and RuntimeClass %s for %s=%s", key, value, class.Name, key, other)
		}
		if selector == nil {
			selector = map[string]string{}
		}
		selector[key] = value
	}
	spec.NodeSelector = selector
	for _, t := range class.Scheduling.Tolerations {
		if !slices.ContainsFunc(spec.Tolerations, func(o corev1.Toleration) bool { return equality.Semantic.DeepEqual(o, t) }) {
			spec.Tolerations = append(spec.Tolerations, t)
		}
	}
	return ""
}

func runtimeClassOf(spec *corev1.PodSpec, classes []*nodev1.RuntimeClass) *nodev1.RuntimeClass {
	if spec.RuntimeClassName == nil {
		return nil
	}
	i := slices.IndexFunc(classes, func(c *nodev1.RuntimeClass) bool { return c.Name == *spec.RuntimeClassName })
	if i < 0 {
		return nil
	}
	return classes[i]
}
