package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/requirement"
)

// AffinityTerm is a term of pod affinity or anti-affinity. Terms from one Selectors are equal if they mean the same.
type AffinityTerm struct {
	Selector *PodSelector
	Key      string
}

// WeightedAffinityTerm is a preferred term.
type WeightedAffinityTerm struct {
	AffinityTerm
	Weight int
}

// AffinityTerms holds the terms of a pod's affinity, or of its anti-affinity.
type AffinityTerms struct {
	Required  []AffinityTerm
	Preferred []WeightedAffinityTerm
}

// AffinityOf reads the pod's affinity to other pods.
func (s *Selectors) AffinityOf(pod *corev1.Pod) AffinityTerms {
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		return s.terms(pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return AffinityTerms{}
}

// AntiAffinityOf reads the pod's anti-affinity to other pods.
func (s *Selectors) AntiAffinityOf(pod *corev1.Pod) AffinityTerms {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return s.terms(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return AffinityTerms{}
}

func (s *Selectors) terms(pod *corev1.Pod, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) AffinityTerms {
	var out AffinityTerms
	for i := range required {
		out.Required = append(out.Required, s.term(pod, &required[i]))
	}
	for i := range preferred {
		out.Preferred = append(out.Preferred, WeightedAffinityTerm{s.term(pod, &preferred[i].PodAffinityTerm), int(preferred[i].Weight)})
	}
	return out
}

// term reads the selector and the namespaces of a term. The API server merges matchLabelKeys and mismatchLabelKeys into the selector of a new
// pod, and kube-scheduler relies on this; term merges them for pods that no API server has processed.
func (s *Selectors) term(pod *corev1.Pod, t *corev1.PodAffinityTerm) AffinityTerm {
	return AffinityTerm{s.selectorOf(pod, t), v1.NormalizeLabel(t.TopologyKey)}
}

func (s *Selectors) selectorOf(pod *corev1.Pod, t *corev1.PodAffinityTerm) *PodSelector {
	var more []requirement.Expression
	merge := func(keys []string, op metav1.LabelSelectorOperator) {
		for _, key := range keys {
			if value, ok := pod.Labels[key]; ok && !mentions(t.LabelSelector, key, op) {
				more = append(more, requirement.Expression{Key: key, Op: requirement.Operator(op), Values: []string{value}})
			}
		}
	}
	merge(t.MatchLabelKeys, metav1.LabelSelectorOpIn)
	merge(t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	if t.NamespaceSelector != nil && isEmptySelector(t.NamespaceSelector) {
		return s.read(t.LabelSelector, more, nil)
	}
	if t.NamespaceSelector != nil && SelectorProblem(t.NamespaceSelector) != "" {
		return s.unreadable
	}
	in := s.namespaces(pod, t)
	if len(in.names) == 0 {
		return s.nowhere // the namespace selector matches no namespace now
	}
	return s.read(t.LabelSelector, more, in)
}

// namespaces lists the namespaces whose pods the term selects.
func (s *Selectors) namespaces(pod *corev1.Pod, t *corev1.PodAffinityTerm) *namespaceList {
	names := slices.Clone(t.Namespaces)
	switch {
	case t.NamespaceSelector == nil && len(names) == 0:
		names = []string{pod.Namespace}
	case t.NamespaceSelector != nil && len(names) == 0:
		return s.namespacesOf(t.NamespaceSelector)
	case t.NamespaceSelector != nil:
		names = append(names, s.namespacesOf(t.NamespaceSelector).names...)
	}
	slices.Sort(names)
	return s.listOf(slices.Compact(names))
}

// mentions reports whether the selector already has the key, in the form that the API server writes.
func mentions(selector *metav1.LabelSelector, key string, op metav1.LabelSelectorOperator) bool {
	return selector != nil && slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return r.Key == key && r.Operator == op && len(r.Values) == 1
	})
}
