package scenario

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
)

// addNamespaces adds the namespaces of the pods, because files rarely contain them. Only one label of an added namespace is known:
// kubernetes.io/metadata.name.
func (m *manifest) addNamespaces(s *engine.Snapshot) {
	if m.catalog != nil {
		return // a snapshot contains its cluster's namespaces
	}
	there := namesOf(s.Namespaces)
	byLabels := slices.ContainsFunc(s.Pods, selectsNamespaces)
	for _, p := range s.Pods {
		if there["/"+p.Namespace] {
			continue
		}
		there["/"+p.Namespace] = true
		n := &corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: p.Namespace, UID: uidOf("", p.Namespace)},
		}
		completeNamespace(n)
		s.Namespaces = append(s.Namespaces, n)
		if byLabels {
			m.note("Namespace %s is not in the files: pods whose affinity selects namespaces by labels find only its name", p.Namespace)
		}
	}
}

// selectsNamespaces reports whether the pod's affinity selects namespaces by labels other than their names.
func selectsNamespaces(p *corev1.Pod) bool {
	a := p.Spec.Affinity
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	var weighted []corev1.WeightedPodAffinityTerm
	if a.PodAffinity != nil {
		terms, weighted = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...), append(weighted, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if a.PodAntiAffinity != nil {
		terms, weighted = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...), append(weighted, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for i := range weighted {
		terms = append(terms, weighted[i].PodAffinityTerm)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool {
		selector := t.NamespaceSelector
		if selector == nil {
			return false
		}
		for key := range selector.MatchLabels {
			if key != corev1.LabelMetadataName {
				return true
			}
		}
		return slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key != corev1.LabelMetadataName })
	})
}
