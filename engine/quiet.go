package engine

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

// podEventWindow is how long after a recorded pod event others are not recorded, so that a burst of pods is one write.
const podEventWindow = 10 * time.Second

// observePods records when a pod last came to the node or left it. The times are those that the pods themselves carry,
// so whoever looks, and however often the program is restarted, the record is the same.
func observePods(l Life, claim *v1.NodeClaim) {
	last := lastPodEvent(l)
	if last.After(claim.Status.LastPodEventTime.Add(podEventWindow)) {
		claim.Status.LastPodEventTime = metav1.NewTime(last.Truncate(time.Second))
	}
}

func lastPodEvent(l Life) time.Time {
	last := l.PodLeft
	for _, pod := range l.Pods {
		if OwnedByDaemonSet(pod) {
			continue
		}
		if t := podEvent(pod); t.After(last) && !t.After(l.Now) {
			last = t
		}
	}
	return last
}

// podEvent is when the pod was bound, began to end, or ended, whichever came last.
func podEvent(pod *corev1.Pod) time.Time {
	last := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			last = c.LastTransitionTime.Time
		}
	}
	if pod.DeletionTimestamp != nil {
		begun := pod.DeletionTimestamp.Time
		if pod.DeletionGracePeriodSeconds != nil {
			begun = begun.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		}
		last = latest(last, begun)
	}
	if IsTerminal(pod) { // it stopped being ready when it ended
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
				last = latest(last, c.LastTransitionTime.Time)
			}
		}
	}
	return last
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// consolidatable says whether the node has been quiet for as long as its pool asks.
func consolidatable(l Life, claim *v1.NodeClaim, step *Step) {
	if l.Pool == nil || l.Pool.Spec.Replicas != nil {
		return
	}
	after := l.Pool.Spec.Disruption.ConsolidateAfter.Duration
	if after == nil || !v1.IsTrue(claim, v1.ConditionInitialized) {
		v1.RemoveCondition(claim, v1.ConditionConsolidatable, l.Now)
		return
	}
	since := latest(claim.Status.LastPodEventTime.Time, lastPodEvent(l))
	if since.IsZero() {
		since = v1.GetCondition(claim, v1.ConditionInitialized).LastTransitionTime.Time
	}
	if left := since.Add(*after).Sub(l.Now); left > 0 {
		v1.RemoveCondition(claim, v1.ConditionConsolidatable, l.Now)
		step.by(left)
		return
	}
	set(claim, v1.ConditionConsolidatable, metav1.ConditionTrue, "", "", l.Now)
}
