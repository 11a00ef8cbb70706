package kube

import (
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// BufferPodLabel marks pods that stand for a CapacityBuffer's room: package buffer makes them, for plans alone. Selectors of pods that
// exist do not see them; those of such pods themselves name the label.
const BufferPodLabel = v1.BufferPodAnnotationKey

// IsBufferPod reports whether the pod stands for room that a CapacityBuffer keeps.
func IsBufferPod(pod *corev1.Pod) bool {
	_, is := pod.Labels[BufferPodLabel]
	return is
}
