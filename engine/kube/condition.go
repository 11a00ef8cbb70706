package kube

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

func ExpireAfter(claim *v1.NodeClaim) time.Duration {
	if claim.Spec.ExpireAfter.Duration == nil {
		return 0
	}
	return *claim.Spec.ExpireAfter.Duration
}

func SetCondition(claim *v1.NodeClaim, condition string, status metav1.ConditionStatus, reason, message string, now time.Time) {
	v1.SetCondition(claim, condition, status, reason, message, now)
}

// With returns a copy of m in which key has value.
func With(m map[string]string, key, value string) map[string]string {
	out := make(map[string]string, len(m)+1)
	maps.Copy(out, m)
	out[key] = value
	return out
}

func hasCondition(node *corev1.Node, t corev1.NodeConditionType, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == t && c.Status == status
	})
}

func NodeReady(node *corev1.Node) bool {
	return hasCondition(node, corev1.NodeReady, corev1.ConditionTrue)
}

func PoolsByName(s *engine.Snapshot) map[string]*v1.NodePool {
	pools := map[string]*v1.NodePool{}
	for _, p := range s.NodePools {
		pools[p.Name] = p
	}
	return pools
}

// TrueSince returns the last transition time of the condition. It returns the zero value if the claim has none of this type.
func TrueSince(claim *v1.NodeClaim, condition string) time.Time {
	if c := v1.GetCondition(claim, condition); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

func Latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
