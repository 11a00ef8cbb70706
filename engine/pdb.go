package engine

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

type policyBudget = policyv1.PodDisruptionBudget

// selects reports whether the budget covers the pod. A selector that cannot be read covers nothing, as in the eviction
// API; an empty one covers every pod of the namespace.
func selects(b *policyBudget, pod *corev1.Pod) bool {
	if b.Namespace != pod.Namespace || b.Spec.Selector == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// allowsNone reports whether the budget's spec rules out every eviction.
func allowsNone(b *policyBudget) bool {
	if v := b.Spec.MaxUnavailable; v != nil && (v.String() == "0" || v.String() == "0%") {
		return true
	}
	return b.Spec.MinAvailable != nil && b.Spec.MinAvailable.String() == "100%"
}

// evictable reports whether the eviction API would send the pod away now. It refuses pods that several budgets cover.
func evictable(pod *corev1.Pod, budgets []*policyBudget) bool {
	var covering []*policyBudget
	for _, b := range budgets {
		if selects(b, pod) {
			covering = append(covering, b)
		}
	}
	switch len(covering) {
	case 0:
		return true
	case 1:
		return covering[0].Status.DisruptionsAllowed > 0 || evictsUnready(covering[0]) && !isReady(pod)
	}
	return false
}

func evictsUnready(b *policyBudget) bool {
	p := b.Spec.UnhealthyPodEvictionPolicy
	return p != nil && *p == policyv1.AlwaysAllow
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
