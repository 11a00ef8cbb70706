package kube

import (
	"slices"

	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// Tolerates reports whether any of the tolerations covers the taint, as kube-scheduler's TaintToleration does.
func Tolerates(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	for i := range tolerations {
		if toleration := &tolerations[i]; covers(toleration, &taint) {
			return true
		}
	}
	return false
}

func covers(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		return t.Value == taint.Value // an API server requires a key beside it, kube-scheduler does not
	case corev1.TolerationOpExists:
		return true
	}
	return false
}

// Untolerated returns the first taint that keeps a pod with these tolerations off the node. It returns nil if no taint does. Only NoSchedule and
// NoExecute keep pods off.
func Untolerated(tolerations []corev1.Toleration, taints []corev1.Taint) *corev1.Taint {
	for i := range taints {
		keepsOff := taints[i].Effect == corev1.TaintEffectNoSchedule || taints[i].Effect == corev1.TaintEffectNoExecute
		if keepsOff && !Tolerates(tolerations, taints[i]) {
			return &taints[i]
		}
	}
	return nil
}

// ToleratesAll reports whether none of the taints keeps a pod with these tolerations off its node.
func ToleratesAll(tolerations []corev1.Toleration, taints []corev1.Taint) bool {
	return Untolerated(tolerations, taints) == nil
}

// SameTaint reports whether two taints keep off the same pods.
func SameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// HasTaints reports whether the list contains all taints of some.
func HasTaints(list, some []corev1.Taint) bool {
	return !slices.ContainsFunc(some, func(t corev1.Taint) bool {
		return !slices.ContainsFunc(list, func(have corev1.Taint) bool { return SameTaint(have, t) })
	})
}

// Unwelcome reports whether a PreferNoSchedule taint is not tolerated.
func Unwelcome(tolerations []corev1.Toleration, taints []corev1.Taint) bool {
	for i := range taints {
		if taints[i].Effect == corev1.TaintEffectPreferNoSchedule && !Tolerates(tolerations, taints[i]) {
			return true
		}
	}
	return false
}

// IsEphemeralTaint reports whether the taint is one that starting nodes have for a while: of the kubelet, the cloud controller, this program, or
// a node agent. The taint of Cilium and of the CSI drivers of EBS, EFS, FSx and Azure's disks is agent-not-ready, the taint of Istio's CNI is
// not-ready; each agent deletes its taint once it runs on the node.
func IsEphemeralTaint(t corev1.Taint) bool {
	switch t.Key {
	case corev1.TaintNodeNotReady:
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	case corev1.TaintNodeUnreachable, "node.cloudprovider.kubernetes.io/uninitialized", "node.cluster.x-k8s.io/uninitialized":
		return t.Effect == corev1.TaintEffectNoSchedule
	case v1.UnregisteredTaintKey:
		return t.Effect == corev1.TaintEffectNoExecute
	case OpeningTaint().Key, "cni.istio.io/not-ready":
		return true
	}
	return strings.HasPrefix(t.Key, "readiness.k8s.io/") || strings.HasSuffix(t.Key, "/agent-not-ready")
}

// SaysState reports whether the taint describes the node's present state, such as memory pressure, and not its purpose.
func SaysState(t corev1.Taint) bool {
	domain, _, _ := strings.Cut(t.Key, "/")
	return domain == "node.kubernetes.io" || domain == "node.cloudprovider.kubernetes.io" || strings.HasSuffix(domain, "karpenter.sh") || domain == "tenon.sh" ||
		IsEphemeralTaint(t)
}
