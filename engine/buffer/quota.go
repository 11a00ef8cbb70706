package buffer

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// quotas holds the ResourceQuotas, by which room is limited: room for pods that a quota forbids is a waste of money.
type quotas map[string][]*quota // by namespace, by name

// quota is a ResourceQuota with the amounts that it leaves.
type quota struct {
	*corev1.ResourceQuota
	left corev1.ResourceList
}

func readQuotas(s *engine.Snapshot) quotas {
	out := quotas{}
	for _, q := range s.ResourceQuotas {
		hard := q.Status.Hard
		if len(hard) == 0 { // the quota controller has not read it yet
			hard = q.Spec.Hard
		}
		left := corev1.ResourceList{}
		for name, most := range hard {
			most = most.DeepCopy()
			most.Sub(q.Status.Used[name])
			left[name] = most
		}
		out[q.Namespace] = append(out[q.Namespace], &quota{q, left})
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b *quota) int { return strings.Compare(a.Name, b.Name) })
	}
	return out
}

// take returns how many of n such pods the quotas of their namespace admit, and the name of the quota that admits fewest. The name is "" if they
// admit all. The admitted pods count against the quotas for the next buffers of the namespace.
func (qs quotas) take(sample *corev1.Pod, n int) (int, string) {
	by := ""
	about := slices.DeleteFunc(slices.Clone(qs[sample.Namespace]), func(q *quota) bool { return !kube.QuotaCovers(q.ResourceQuota, sample) })
	for _, q := range about {
		if most, binds := fits(q.left, kube.QuotaUsage(q.ResourceQuota, sample)); binds && most < n {
			n, by = most, q.Name
		}
	}
	for _, q := range about {
		spend(q.left, kube.QuotaUsage(q.ResourceQuota, sample), n)
	}
	return n, by
}
