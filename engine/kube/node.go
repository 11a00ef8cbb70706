package kube

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// LeavesSoon reports whether the node is gone, is being removed, or is marked for that.
func LeavesSoon(node *corev1.Node) bool {
	return node == nil || node.DeletionTimestamp != nil || HasTaint(node, v1.DisruptedTaint())
}

// IsProtected reports whether the node's own do-not-disrupt annotation keeps it; what its pods' annotations do ProtectionOf says.
func IsProtected(node *corev1.Node) bool {
	return node != nil && node.Annotations[v1.DoNotDisruptAnnotationKey] == "true"
}

// OpenValue stands for a label's value that is not known yet; no label can have it.
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

// Filled is have, with every amount that is missing or zero taken from spare.
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

// IsLeavingSoon reports whether the taint is the one that nodes get which go next.
func IsLeavingSoon(t corev1.Taint) bool { return t.Key == v1.LeavingSoonTaintKey }

// OpeningTaint keeps pods off a registered node until it can take them and those planned for it are nominated to it.
// kube-scheduler drops a pod's nomination whenever an attempt to place the pod fails, so a nomination must come last,
// and nothing may be placed between the node's becoming ready and the nominations.
func OpeningTaint() corev1.Taint {
	return corev1.Taint{Key: "tenon.sh/opening", Effect: corev1.TaintEffectNoSchedule}
}

// HasTaint looks for a taint by key and effect; its value does not matter.
func HasTaint(node *corev1.Node, taint corev1.Taint) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint.Key && t.Effect == taint.Effect })
}

// Merged is a copy of base with all of over.
func Merged(base, over map[string]string) map[string]string {
	out := make(map[string]string, len(base)+len(over))
	maps.Copy(out, base)
	maps.Copy(out, over)
	return out
}
