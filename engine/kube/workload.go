package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// WorkloadOf is the UID of the controller that makes a pod anew elsewhere when the pod is evicted; "" for pods of no controller, and of
// DaemonSets, whose pods go with their node.
func WorkloadOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOf(pod); owner != nil && !OwnedByDaemonSet(pod) {
		return owner.UID
	}
	return ""
}
