package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/kube"
)

// quotas are ResourceQuotas with their usage.
type quotas []*quota

type quota struct {
	*corev1.ResourceQuota
	used corev1.ResourceList
}

// readQuotas computes the usage of admitted pods: the usage in the quota's status, or that of the pods in the files if it is larger.
func (m *manifest) readQuotas() quotas {
	var out quotas
	for _, q := range m.quotas {
		x := &quota{q, corev1.ResourceList{}}
		for _, p := range m.snapshot.Pods {
			if !m.asksToEnter(p) && !kube.IsTerminal(p) && kube.QuotaCovers(x.ResourceQuota, p) {
				x.add(kube.QuotaUsage(x.ResourceQuota, p))
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

// take admits a pod and returns "", or names the quota that refuses it.
func (qs quotas) take(p *corev1.Pod) string {
	for _, q := range qs {
		if !kube.QuotaCovers(q.ResourceQuota, p) {
			continue
		}
		if name := q.unsaid(p); name != "" {
			return fmt.Sprintf("ResourceQuota %s wants every container to say its %s", q.Name, name)
		}
		usage := kube.QuotaUsage(q.ResourceQuota, p)
		for _, name := range sortedNames(usage) {
			need, sum, most := usage[name], q.used[name], q.Spec.Hard[name]
			before := sum.DeepCopy()
			if sum.Add(need); sum.Cmp(most) > 0 {
				return fmt.Sprintf("ResourceQuota %s allows %s %s, %s is used, and each asks for %s", q.Name, most.String(), name, before.String(), need.String())
			}
		}
	}
	for _, q := range qs {
		if kube.QuotaCovers(q.ResourceQuota, p) {
			q.add(kube.QuotaUsage(q.ResourceQuota, p))
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

// unsaid returns a resource of the quota that a container must request or limit and does not. It returns "" if there is none.
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
