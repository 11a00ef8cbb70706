package inventory

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// moveTime is how long a move disturbs a pod, start-up aside.
	moveTime = 10 * time.Minute
	// usualStart is the start-up time of a pod whose owner has no pod that has become ready.
	usualStart = 30 * time.Second
	// youngAge is the age below which a pod's move is clearly dearer, because the pod was moved or rolled out just now.
	youngAge = 30 * time.Minute
	// dearestYoung bounds the factor for young pods. It does not bound the factor for brief pods, because these end by themselves, often before a
	// move has paid back.
	dearestYoung = 3
)

// startTime returns how long the pod took from being bound to being ready, below zero if that is not known.
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

// OwnerOf is ownerKey with a cache.
func (cache *Cache) OwnerOf(pod *corev1.Pod) string {
	if info := cache.Pods[pod]; info != nil && info.Owner != nil {
		return info.Owner.Name
	}
	return ownerKey(pod)
}

// ownerKey returns the namespace, kind and name of the pod's controller. It returns "" if there is none.
func ownerKey(pod *corev1.Pod) string {
	c := metav1.GetControllerOfNoCopy(pod)
	if c == nil {
		return ""
	}
	return pod.Namespace + "/" + c.Kind + "/" + c.Name
}

// OwnersStart returns how long pods of the pod's owner take from being bound to being ready.
func (info *PodInfo) OwnersStart() time.Duration {
	if info.Owner != nil {
		if took := info.Owner.startTime(); took >= 0 {
			return took
		}
	}
	return usualStart
}

// SettledCost returns the cost in USD of moving a pod that has run for long: its worth per hour for as long as the move disturbs it, more
// for pods of high priority or deletion cost.
func (info *PodInfo) SettledCost(perHour float64, start time.Duration) float64 {
	return perHour * (moveTime + 2*start).Hours() * info.weight
}

// Young returns the factor by which the pod's age raises the cost of moving it.
func (info *PodInfo) Young(now time.Time) float64 {
	age := max(now.Sub(info.boundAt), time.Second)
	times := 1 + float64(youngAge)/float64(age)
	if info.brief {
		return times
	}
	return min(times, dearestYoung)
}
