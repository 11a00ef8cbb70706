package kube

import corev1 "k8s.io/api/core/v1"

func UsageOf(list corev1.ResourceList) Usage {
	return Usage{Amount(corev1.ResourceCPU, list[corev1.ResourceCPU]), Amount(corev1.ResourceMemory, list[corev1.ResourceMemory])}
}

// Usage is an amount of CPU and of memory, of a node or of requests.
type Usage [2]int64

func (u Usage) Plus(v Usage) Usage { return Usage{u[0] + v[0], u[1] + v[1]} }

func (u Usage) Less(v Usage) Usage { return Usage{u[0] - v[0], u[1] - v[1]} }

func (u Usage) Within(v Usage) bool { return u[0] <= v[0] && u[1] <= v[1] }
