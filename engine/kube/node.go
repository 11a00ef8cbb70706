package kube

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// LeavesSoon reports whether the node is gone, is being deleted, or has the disrupted taint.
func LeavesSoon(node *corev1.Node) bool {
	return node == nil || node.DeletionTimestamp != nil || HasTaint(node, v1.DisruptedTaint())
}

// IsProtected reports whether the node's own do-not-disrupt annotation protects it; ProtectionOf reads the annotations of pods.
func IsProtected(node *corev1.Node) bool {
	return node != nil && node.Annotations[v1.DoNotDisruptAnnotationKey] == "true"
}

// OpenValue represents a label's value that is not known yet; no label can have this value.
const OpenValue = "?"

func CompareBy[T any](a, b T, before func(a, b T) bool) int {
	switch {
	case before(a, b):
		return -1
	case before(b, a):
		return 1
	}
	return 0
}

func IsLaunched(c *v1.NodeClaim) bool { return len(c.Status.Allocatable) > 0 }

func IsStartupTaint(c *v1.NodeClaim, t corev1.Taint) bool {
	return slices.ContainsFunc(c.Spec.StartupTaints, func(s v1.Taint) bool { return s.Key == t.Key && s.Effect == t.Effect })
}

// Filled returns have, with missing and zero amounts taken from spare.
func Filled(have, spare corev1.ResourceList) corev1.ResourceList {
	out := have.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	for name, q := range spare {
		if h, ok := out[name]; !ok || h.IsZero() {
			out[name] = q
		}
	}
	return out
}

// IsLeavingSoon reports whether the taint is the one of nodes that are removed next.
func IsLeavingSoon(t corev1.Taint) bool { return t.Key == v1.LeavingSoonTaintKey }

// OpeningTaint keeps pods off a registered node until it is ready and its planned pods are nominated to it. kube-scheduler drops a pod's
// nomination when an attempt to place the pod fails, so the nomination must come last, and no other pod may be placed between the node's
// readiness and the nominations.
func OpeningTaint() corev1.Taint {
	return corev1.Taint{Key: "tenon.sh/opening", Effect: corev1.TaintEffectNoSchedule}
}

// HasTaint reports whether the node has a taint with the same key and effect, with any value.
func HasTaint(node *corev1.Node, taint corev1.Taint) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint.Key && t.Effect == taint.Effect })
}

// Merged returns a copy of base with all of over.
func Merged(base, over map[string]string) map[string]string {
	out := make(map[string]string, len(base)+len(over))
	maps.Copy(out, base)
	maps.Copy(out, over)
	return out
}
