package kube

import (
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// BufferPodLabel marks pods that represent the room of a CapacityBuffer or a ProvisioningRequest. Packages buffer and booking make these pods only
// for plans. The selectors of existing pods do not match them; the selectors of buffer pods name this label.
const BufferPodLabel = v1.BufferPodAnnotationKey

// RequestNameAnnotation is the name of the ProvisioningRequest whose room a buffer pod represents.
const RequestNameAnnotation = "tenon.sh/provisioning-request"

// RoomOf names the owner of the room that the pod represents: "CapacityBuffer default/web".
func RoomOf(pod *corev1.Pod) string {
	if name := pod.Annotations[RequestNameAnnotation]; name != "" {
		return "ProvisioningRequest " + pod.Namespace + "/" + name
	}
	return "CapacityBuffer " + pod.Namespace + "/" + pod.Annotations[v1.BufferNameAnnotationKey]
}

// IsBufferPod reports whether the pod represents the room of a CapacityBuffer or a ProvisioningRequest.
func IsBufferPod(pod *corev1.Pod) bool {
	_, is := pod.Labels[BufferPodLabel]
	return is
}
