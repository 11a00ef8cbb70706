package budget

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/kube"
)

// illAfter is how long a pod that has a node may take to become ready. One that takes longer is ill by itself: it is not away because
// it was moved, and nobody waits for it.
const illAfter = 10 * time.Minute

// IsAway reports whether the pod serves nobody now, although it did, or is about to: it has been told to end, it has no node yet, or
// its node has had it for less than ten minutes since it was last ready.
func IsAway(pod *corev1.Pod, now time.Time) bool {
	if kube.IsTerminating(pod) || pod.Spec.NodeName == "" {
		return true
	}
	ready, since := readiness(pod)
	return ready != corev1.ConditionTrue && now.Sub(since) < illAfter
}

// readiness returns the status of the pod's condition Ready, and the time at which this status began. A pod without this condition has the status
// "" since kube-scheduler bound the pod (its condition PodScheduled), or since its creation if the pod has neither condition.
func readiness(pod *corev1.Pod) (corev1.ConditionStatus, time.Time) {
	since := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady:
			return c.Status, c.LastTransitionTime.Time
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue:
			since = c.LastTransitionTime.Time
		}
	}
	return "", since
}
