package engine

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

// evictionCost is upstream's cost of evicting a pod, 1 for one that says nothing about it, between -10 and 10.
func evictionCost(pod *corev1.Pod) float64 {
	cost := 1 + float64(deletionCost(pod))/(1<<27) + float64(priorityOf(pod))/(1<<25)
	return min(max(cost, -10), 10)
}

// deletionCost is what the pod says of itself: the annotation for disruption, even if it cannot be read, before the one for
// scaling down. A value that is no 32-bit number counts as 0.
func deletionCost(pod *corev1.Pod) int32 {
	if len(pod.Annotations) == 0 {
		return 0
	}
	text, ok := pod.Annotations[v1.DisruptionCostAnnotationKey]
	if !ok {
		text, ok = pod.Annotations[v1.PodDeletionCostAnnotationKey]
	}
	if !ok {
		return 0 // as most pods
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// legacyCost is upstream's cost of disrupting a machine: what its pods cost to evict, times the share of its life that is left.
func (d *disruptor) legacyCost(h *host) float64 {
	sum := 0.0
	for _, pod := range h.bound {
		sum += evictionCost(pod)
	}
	return sum * h.lifetimeLeft(d.s)
}

// priorityOf is the pod's priority, 0 unless said.
func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// reschedulingCost is upstream's cost of moving a machine's pods: 1 for the machine, and what the pods that need another place
// cost to evict.
func (d *disruptor) reschedulingCost(h *host) float64 {
	cost := 1.0
	for _, pod := range d.moving(h) {
		cost += max(0, evictionCost(pod))
	}
	return cost
}

const (
	// moveTime is how long moving a pod disturbs it, start-up aside.
	moveTime = 10 * time.Minute
	// usualStart is taken for the start-up of a pod whose owner has no pod that has become ready.
	usualStart = 30 * time.Second
	// youngAge is the age of a pod below which it is clearly dearer to move: it has been moved, or rolled out, just now.
	youngAge = 30 * time.Minute
	// dearestYoung bounds what youth adds.
	dearestYoung = 3
)

// startTime is how long the pod took from being bound to being ready, below zero if that is not known.
func (f *podFacts) startTime() time.Duration {
	if f.startedKnown {
		return f.started
	}
	f.started, f.startedKnown = -1, true
	for _, c := range f.pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			f.started = c.LastTransitionTime.Sub(boundAt(f.pod))
		}
	}
	return f.started
}

// ownerOf is ownerKey, remembered.
func (m *Memo) ownerOf(pod *corev1.Pod) string {
	if f := m.pods[pod]; f != nil && f.owner != nil {
		return f.owner.name
	}
	return ownerKey(pod)
}

// ownerKey names the controller of the pod, "" for none.
func ownerKey(pod *corev1.Pod) string {
	c := metav1.GetControllerOfNoCopy(pod)
	if c == nil {
		return ""
	}
	return pod.Namespace + "/" + c.Kind + "/" + c.Name
}

// ownersStart is how long pods of the pod's owner take from being bound to being ready.
func (f *podFacts) ownersStart() time.Duration {
	if f.owner != nil {
		if took := f.owner.startTime(); took >= 0 {
			return took
		}
	}
	return usualStart
}

// settledCost is what moving a pod costs in USD that has run for long: what it is worth an hour, for as long as moving disturbs
// it, more for pods of high priority or deletion cost.
func (f *podFacts) settledCost(perHour float64, start time.Duration) float64 {
	return perHour * (moveTime + 2*start).Hours() * f.weight
}

// young is how many times that it costs to move the pod at its age.
func (f *podFacts) young(now time.Time) float64 {
	times := float64(dearestYoung)
	if age := now.Sub(f.boundAt); age > 0 {
		times = min(times, 1+float64(youngAge)/float64(age))
	}
	return times
}
