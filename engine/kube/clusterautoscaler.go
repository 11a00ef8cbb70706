package kube

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// Marks that Cluster Autoscaler writes on nodes, and reads from nodes and pods. The value of both taints is the time of their writing, in
// seconds since 1970.
const (
	// RemovedElsewhereTaint keeps pods off a node that Cluster Autoscaler drains and removes. Cluster Autoscaler deletes it if the removal
	// fails, and at its restart.
	RemovedElsewhereTaint = "ToBeDeletedByClusterAutoscaler"
	// CandidateElsewhereTaint discourages pods from a node that is unneeded: Cluster Autoscaler removes the node if this lasts.
	CandidateElsewhereTaint = "DeletionCandidateOfClusterAutoscaler"
	// ScaleDownDisabledAnnotation, "true" on a node, makes Cluster Autoscaler keep the node. SafeToEvictAnnotation, "false" on a pod, makes it
	// keep the pod's node.
	ScaleDownDisabledAnnotation = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	SafeToEvictAnnotation       = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// ScaleUpDelayAnnotation makes Cluster Autoscaler start no node for a pod before a time has passed, so Tenon is first.
	ScaleUpDelayAnnotation = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
)

// IsRemovedElsewhere reports whether Cluster Autoscaler is removing the node.
func IsRemovedElsewhere(node *corev1.Node) bool { return hasTaintKey(node, RemovedElsewhereTaint) }

// IsCandidateElsewhere reports whether Cluster Autoscaler removes the node if it stays unneeded.
func IsCandidateElsewhere(node *corev1.Node) bool { return hasTaintKey(node, CandidateElsewhereTaint) }

// IsElsewhereTaint reports whether the taint is one of Cluster Autoscaler's: it is about one node, not about the node's group.
func IsElsewhereTaint(t corev1.Taint) bool {
	return t.Key == RemovedElsewhereTaint || t.Key == CandidateElsewhereTaint
}

// MayLeave reports whether the taint discourages pods because its node is about to leave.
func MayLeave(t corev1.Taint) bool {
	return IsLeavingSoon(t) || t.Key == CandidateElsewhereTaint && t.Effect == corev1.TaintEffectPreferNoSchedule
}

// RemovedElsewhereSince returns when Cluster Autoscaler began to remove the node. It returns the zero value if that is unknown.
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

// GroupLabels returns the labels that name a node's group, the most reliable first.
func GroupLabels() []string {
	return []string{
		"cluster.x-k8s.io/deployment-name", v1.NodePoolLabelKey, "eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name",
		"cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", "agentpool", "kops.k8s.io/instancegroup",
	}
}

// GroupOf returns the name of the node's group. It returns "" if there is none.
func GroupOf(node *corev1.Node) string {
	for _, key := range GroupLabels() {
		if node.Labels[key] != "" {
			return node.Labels[key]
		}
	}
	return ""
}
