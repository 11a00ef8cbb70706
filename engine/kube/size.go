package kube

import corev1 "k8s.io/api/core/v1"

// memoryOfCore is the memory that equals one core in a pod's size.
const memoryOfCore = 4 << 30

// PodSize returns the size of the pod's requests, in thousandths of a core. Large pods leave a machine before small ones, because the small ones
// would occupy the few machines that have room for the large ones.
func PodSize(pod *corev1.Pod) int64 {
	return SizeOf(PodRequests(pod))
}

func SizeOf(list corev1.ResourceList) int64 {
	return list.Cpu().MilliValue() + list.Memory().Value()/(memoryOfCore/1000)
}
