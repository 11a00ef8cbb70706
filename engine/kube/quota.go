package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// PodNeeds returns the requests and the limits of all containers together.
func PodNeeds(p *corev1.Pod) corev1.ResourceRequirements {
	limited := p.DeepCopy()
	for _, containers := range [][]corev1.Container{limited.Spec.InitContainers, limited.Spec.Containers} {
		for i := range containers {
			containers[i].Resources.Requests = containers[i].Resources.Limits
		}
	}
	if r := limited.Spec.Resources; r != nil {
		r.Requests = r.Limits
	}
	limited.Spec.Overhead = nil
	return corev1.ResourceRequirements{Requests: PodRequests(p), Limits: PodRequests(limited)}
}

// QuotaUsage returns the pod's usage of the resources that the quota counts.
func QuotaUsage(q *corev1.ResourceQuota, p *corev1.Pod) corev1.ResourceList {
	needs, out := PodNeeds(p), corev1.ResourceList{}
	for name := range q.Spec.Hard {
		list, counted := needs.Requests, strings.TrimPrefix(string(name), "requests.")
		if of, limits := strings.CutPrefix(string(name), "limits."); limits {
			list, counted = needs.Limits, of
		}
		if name == corev1.ResourcePods || name == "count/pods" {
			out[name] = *resource.NewQuantity(1, resource.DecimalSI)
		} else if n, ok := list[corev1.ResourceName(counted)]; ok {
			out[name] = n
		}
	}
	return out
}

// QuotaCovers reports whether the quota counts the pod.
func QuotaCovers(q *corev1.ResourceQuota, p *corev1.Pod) bool {
	if q.Namespace != p.Namespace {
		return false
	}
	for _, scope := range q.Spec.Scopes {
		if !inScope(p, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}) {
			return false
		}
	}
	return q.Spec.ScopeSelector == nil || !slices.ContainsFunc(q.Spec.ScopeSelector.MatchExpressions, func(r corev1.ScopedResourceSelectorRequirement) bool { return !inScope(p, r) })
}

func inScope(p *corev1.Pod, r corev1.ScopedResourceSelectorRequirement) bool {
	ends := p.Spec.ActiveDeadlineSeconds != nil && *p.Spec.ActiveDeadlineSeconds >= 0
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return ends
	case corev1.ResourceQuotaScopeNotTerminating:
		return !ends
	case corev1.ResourceQuotaScopeBestEffort:
		return isBestEffort(p)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !isBestEffort(p)
	case corev1.ResourceQuotaScopePriorityClass:
		class, named := p.Spec.PriorityClassName, slices.Contains(r.Values, p.Spec.PriorityClassName)
		switch r.Operator {
		case corev1.ScopeSelectorOpIn:
			return named
		case corev1.ScopeSelectorOpNotIn:
			return !named
		case corev1.ScopeSelectorOpDoesNotExist:
			return class == ""
		}
		return class != ""
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return reachesOut(p)
	}
	return false
}

func isBestEffort(p *corev1.Pod) bool {
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			if !list.Cpu().IsZero() || !list.Memory().IsZero() {
				return false
			}
		}
	}
	return p.Spec.Resources == nil
}

// reachesOut reports whether the pod's affinity terms name other namespaces.
func reachesOut(p *corev1.Pod) bool {
	a := p.Spec.Affinity
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	if a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		for _, w := range a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			terms = append(terms, w.PodAffinityTerm)
		}
	}
	if a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		for _, w := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			terms = append(terms, w.PodAffinityTerm)
		}
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}
