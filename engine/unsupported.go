package engine

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// objection says why the engine cannot plan for the pod at all: it uses something that the engine does not act on yet,
// so any machine might be wasted on it, or it is not valid.
func objection(pod *corev1.Pod) Reason {
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			return notSupported("topology spread over " + c.TopologyKey)
		}
	}
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return notSupported("required pod affinity")
		}
		if a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return notSupported("required pod anti-affinity")
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return notSupported("persistent volume " + v.Name)
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				return notSupported(fmt.Sprintf("host port %d", p.HostPort))
			}
		}
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return notSupported("resource claims")
	}
	for name, q := range PodRequests(pod) {
		if q.Sign() < 0 {
			return Reason{Code: InvalidPod, Key: "requests of " + string(name), Have: q.String() + " is below zero"}
		}
	}
	return Reason{}
}

func notSupported(what string) Reason { return Reason{Code: FeatureNotSupported, Key: what} }
