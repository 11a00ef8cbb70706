package inventory

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// moveTime is how long moving a pod disturbs it, start-up aside.
	moveTime = 10 * time.Minute
	// usualStart is taken for the start-up of a pod whose owner has no pod that has become ready.
	usualStart = 30 * time.Second
	// youngAge is the age of a pod below which it is clearly dearer to move: it has been moved, or rolled out, just now.
	youngAge = 30 * time.Minute
	// dearestYoung bounds what youth adds, but not for the pods of Jobs: those end by themselves, often before a move has paid back.
	dearestYoung = 3
)

// startTime is how long the pod took from being bound to being ready, below zero if that is not known.
func (info *PodInfo) startTime() time.Duration {
	if info.startedKnown {
		return info.started
	}
	info.started, info.startedKnown = -1, true
	for _, c := range info.Pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			info.started = c.LastTransitionTime.Sub(BoundAt(info.Pod))
		}
	}
	return info.started
}

// OwnerOf is ownerKey, remembered.
func (cache *Cache) OwnerOf(pod *corev1.Pod) string {
	if info := cache.Pods[pod]; info != nil && info.Owner != nil {
		return info.Owner.Name
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

// OwnersStart is how long pods of the pod's owner take from being bound to being ready.
func (info *PodInfo) OwnersStart() time.Duration {
	if info.Owner != nil {
		if took := info.Owner.startTime(); took >= 0 {
			return took
		}
	}
	return usualStart
}

// SettledCost is what moving a pod costs in USD that has run for long: what it is worth an hour, for as long as moving disturbs
// it, more for pods of high priority or deletion cost.
func (info *PodInfo) SettledCost(perHour float64, start time.Duration) float64 {
	return perHour * (moveTime + 2*start).Hours() * info.weight
}

// Young is how many times that it costs to move the pod at its age.
func (info *PodInfo) Young(now time.Time) float64 {
	age := max(now.Sub(info.boundAt), time.Second)
	times := 1 + float64(youngAge)/float64(age)
	if info.brief {
		return times
	}
	return min(times, dearestYoung)
}
