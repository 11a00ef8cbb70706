package budget

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/kube"
)

// illAfter is the time after which an unready pod on a node counts as ill: then the pod's move is not the cause, and no drain waits for the pod.
const illAfter = 10 * time.Minute

// IsAway reports whether the pod is out of service because of a move or a start: it is being deleted, it has no node yet, or it has been unready
// on its node for less than ten minutes.
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
