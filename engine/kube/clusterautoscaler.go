package kube

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// What Cluster Autoscaler writes on nodes, and reads from nodes and pods. The value of both taints is when it wrote them, in seconds
// since 1970.
const (
	// RemovedElsewhereTaint keeps pods off a node that it drains and removes. It takes the taint off if the removal fails, or when
	// it is started again.
	RemovedElsewhereTaint = "ToBeDeletedByClusterAutoscaler"
	// CandidateElsewhereTaint asks pods to rather go elsewhere: it finds the node unneeded, and removes it if that lasts.
	CandidateElsewhereTaint = "DeletionCandidateOfClusterAutoscaler"
	// ScaleDownDisabledAnnotation, "true" on a node, has it leave the node. SafeToEvictAnnotation, "false" on a pod, has it leave the
	// pod's node.
	ScaleDownDisabledAnnotation = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	SafeToEvictAnnotation       = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// ScaleUpDelayAnnotation has it start no node for a pod before a time has passed: Tenon comes first.
	ScaleUpDelayAnnotation = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
)

// IsRemovedElsewhere reports whether Cluster Autoscaler is removing the node.
func IsRemovedElsewhere(node *corev1.Node) bool { return hasTaintKey(node, RemovedElsewhereTaint) }

// IsCandidateElsewhere reports whether Cluster Autoscaler is about to remove the node if it stays as it is.
func IsCandidateElsewhere(node *corev1.Node) bool { return hasTaintKey(node, CandidateElsewhereTaint) }

// IsElsewhereTaint reports whether the taint is one of Cluster Autoscaler's: it says what becomes of one node, and nothing of others
// of its group.
func IsElsewhereTaint(t corev1.Taint) bool {
	return t.Key == RemovedElsewhereTaint || t.Key == CandidateElsewhereTaint
}

// MayLeave reports whether the taint asks pods to rather go elsewhere because its node is about to leave.
func MayLeave(t corev1.Taint) bool {
	return IsLeavingSoon(t) || t.Key == CandidateElsewhereTaint && t.Effect == corev1.TaintEffectPreferNoSchedule
}

// RemovedElsewhereSince is when Cluster Autoscaler began to remove the node, zero if it does not say.
func RemovedElsewhereSince(node *corev1.Node) time.Time {
	for _, t := range node.Spec.Taints {
		if t.Key != RemovedElsewhereTaint {
			continue
		}
		if seconds, err := strconv.ParseInt(t.Value, 10, 64); err == nil && seconds > 0 {
			return time.Unix(seconds, 0).UTC()
		}
	}
	return time.Time{}
}

func hasTaintKey(node *corev1.Node, key string) bool {
	return node != nil && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// GroupLabels are the labels by which clouds and tools name a group of nodes, the surest first.
func GroupLabels() []string {
	return []string{
		"cluster.x-k8s.io/deployment-name", v1.NodePoolLabelKey, "eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name",
		"cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", "agentpool", "kops.k8s.io/instancegroup",
	}
}

// GroupOf is the name of the node's group, "" if it has none.
func GroupOf(node *corev1.Node) string {
	for _, key := range GroupLabels() {
		if node.Labels[key] != "" {
			return node.Labels[key]
		}
	}
	return ""
}
