package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// WorkloadOf returns the UID of the controller that replaces the pod after an eviction. It returns "" for pods without a controller, and for pods
// of DaemonSets, because they are deleted with their node.
func WorkloadOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOf(pod); owner != nil && !OwnedByDaemonSet(pod) {
		return owner.UID
	}
	return ""
}
