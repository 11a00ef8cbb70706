package kube

import (
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// BufferPodLabel marks pods that stand for a CapacityBuffer's or a ProvisioningRequest's room: packages buffer and booking make them, for plans alone. Selectors of pods that
// exist do not see them; those of such pods themselves name the label.
const BufferPodLabel = v1.BufferPodAnnotationKey

// RequestNameAnnotation is the name of the ProvisioningRequest whose room such a pod stands for.
const RequestNameAnnotation = "tenon.sh/provisioning-request"

// RoomOf says whose room the pod stands for: "CapacityBuffer default/web".
func RoomOf(pod *corev1.Pod) string {
	if name := pod.Annotations[RequestNameAnnotation]; name != "" {
		return "ProvisioningRequest " + pod.Namespace + "/" + name
	}
	return "CapacityBuffer " + pod.Namespace + "/" + pod.Annotations[v1.BufferNameAnnotationKey]
}

// IsBufferPod reports whether the pod stands for room that a CapacityBuffer or a ProvisioningRequest keeps.
func IsBufferPod(pod *corev1.Pod) bool {
	_, is := pod.Labels[BufferPodLabel]
	return is
}
