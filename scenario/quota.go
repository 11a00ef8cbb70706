package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine/kube"
)

// quotas count what pods may have by the ResourceQuotas of their namespaces.
type quotas []*quota

type quota struct {
	*corev1.ResourceQuota
	used corev1.ResourceList
}

// readQuotas counts what the pods that were let in already use: what the quota says, or what is in the files if that is more.
func (m *manifest) readQuotas() quotas {
	var out quotas
	for _, q := range m.quotas {
		x := &quota{q, corev1.ResourceList{}}
		for _, p := range m.snapshot.Pods {
			if !m.asksToEnter(p) && !kube.IsTerminal(p) && x.isFor(p) {
				x.add(x.usage(p))
			}
		}
		for name, n := range q.Status.Used {
			if have := x.used[name]; have.Cmp(n) < 0 {
				x.used[name] = n
			}
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b *quota) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// take lets a pod in, or says which quota does not allow it.
func (qs quotas) take(p *corev1.Pod) string {
	for _, q := range qs {
		if !q.isFor(p) {
			continue
		}
		if name := q.unsaid(p); name != "" {
			return fmt.Sprintf("ResourceQuota %s wants every container to say its %s", q.Name, name)
		}
		usage := q.usage(p)
		for _, name := range sortedNames(usage) {
			need, sum, most := usage[name], q.used[name], q.Spec.Hard[name]
			before := sum.DeepCopy()
			if sum.Add(need); sum.Cmp(most) > 0 {
				return fmt.Sprintf("ResourceQuota %s allows %s %s, %s is used, and each asks for %s", q.Name, most.String(), name, before.String(), need.String())
			}
		}
	}
	for _, q := range qs {
		if q.isFor(p) {
			q.add(q.usage(p))
		}
	}
	return ""
}

func (q *quota) add(usage corev1.ResourceList) {
	for name, n := range usage {
		sum := q.used[name]
		sum.Add(n)
		q.used[name] = sum
	}
}

// usage is what a pod takes of the resources that the quota counts.
func (q *quota) usage(p *corev1.Pod) corev1.ResourceList {
	needs, out := podNeeds(p), corev1.ResourceList{}
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

// unsaid is a resource of the quota that a container must name and does not.
func (q *quota) unsaid(p *corev1.Pod) corev1.ResourceName {
	if p.Spec.Resources != nil {
		return ""
	}
	for _, name := range sortedNames(q.Spec.Hard) {
		of, limits := strings.CutPrefix(string(name), "limits.")
		counted := corev1.ResourceName(strings.TrimPrefix(of, "requests."))
		if counted != corev1.ResourceCPU && counted != corev1.ResourceMemory {
			continue
		}
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			list := c.Resources.Requests
			if limits {
				list = c.Resources.Limits
			}
			if _, ok := list[counted]; !ok {
				return name
			}
		}
	}
	return ""
}

// isFor reports whether the quota counts the pod.
func (q *quota) isFor(p *corev1.Pod) bool {
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

// reachesOut reports whether the pod's rules name pods of other namespaces.
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
