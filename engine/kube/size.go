package kube

import corev1 "k8s.io/api/core/v1"

// memoryOfCore is how much memory counts as much as a core when pods are compared.
const memoryOfCore = 4 << 30

// PodSize compares pods by what they ask for, in thousandths of a core. Large pods leave a machine before small ones: the
// small ones would spread over the room that only a few machines have for the large ones.
func PodSize(pod *corev1.Pod) int64 {
	return SizeOf(PodRequests(pod))
}

func SizeOf(list corev1.ResourceList) int64 {
	return list.Cpu().MilliValue() + list.Memory().Value()/(memoryOfCore/1000)
}
