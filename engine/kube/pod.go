package kube

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// IsPending reports whether the pod waits for a machine: kube-scheduler has tried it and found no node, and it is not
// one that a DaemonSet or a kubelet runs. kube-scheduler never tries a pod with scheduling gates, whatever somebody has written into its
// status. A pod that is nominated to a node waits no longer; provisioning.Plan looks at that
// itself, because the node may be gone.
func IsPending(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" || len(pod.Spec.SchedulingGates) > 0 || !IsActive(pod) || OwnedByDaemonSet(pod) || IsMirror(pod) {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Reason == corev1.PodReasonUnschedulable
		}
	}
	return false
}

// SchedulerWords is what kube-scheduler said last of a pod that it found no node for.
func SchedulerWords(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Message != "" {
			return c.Message
		}
	}
	return "nothing"
}

// IsUntried reports whether the pod runs nowhere and kube-scheduler, which may, has not tried it yet.
func IsUntried(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0 && IsActive(pod) && !OwnedByDaemonSet(pod) && !IsMirror(pod) &&
		!slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
}

// IsQueued reports whether kube-scheduler has the pod to find a node for, tried or not.
func IsQueued(pod *corev1.Pod) bool { return IsPending(pod) || IsUntried(pod) }

// IsTerminal reports whether the pod has run to its end.
func IsTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// IsTerminating reports whether the pod has been told to stop.
func IsTerminating(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

func IsActive(pod *corev1.Pod) bool { return !IsTerminal(pod) && !IsTerminating(pod) }

// IsStuckTerminating reports whether the pod should have been gone for more than a minute. Its deletion timestamp
// already includes its grace period.
func IsStuckTerminating(pod *corev1.Pod, now time.Time) bool {
	return IsTerminating(pod) && now.After(pod.DeletionTimestamp.Add(time.Minute))
}

// OwnedByDaemonSet reports whether a DaemonSet runs the pod.
func OwnedByDaemonSet(pod *corev1.Pod) bool { return OwnedBy(pod, "apps/v1", "DaemonSet") }

// IsMirror reports whether a kubelet runs the pod from a file of its own.
func IsMirror(pod *corev1.Pod) bool { return OwnedBy(pod, "v1", "Node") }

func OwnedBy(pod *corev1.Pod, apiVersion, kind string) bool {
	for _, o := range pod.OwnerReferences {
		if o.APIVersion == apiVersion && o.Kind == kind {
			return true
		}
	}
	return false
}

// IsReschedulable reports whether the pod would need another node if its own went. A terminating pod of a StatefulSet
// counts, because its successor is made only once it is gone.
func IsReschedulable(pod *corev1.Pod) bool {
	if OwnedByDaemonSet(pod) || IsMirror(pod) || IsTerminal(pod) {
		return false
	}
	return !IsTerminating(pod) || OwnedBy(pod, "apps/v1", "StatefulSet")
}

// IsDrainable reports whether a drain waits for the pod to leave. Pods that tolerate the disrupted taint, mirror pods
// and pods that are stuck terminating do not hold a node.
func IsDrainable(pod *corev1.Pod, now time.Time) bool {
	return !IsMirror(pod) && !ToleratesDisruption(pod) && !IsStuckTerminating(pod, now)
}

func ToleratesDisruption(pod *corev1.Pod) bool {
	return Tolerates(pod.Spec.Tolerations, corev1.Taint{Key: v1.DisruptedTaintKey, Effect: corev1.TaintEffectNoSchedule})
}

// Protection says whether, and until when, a pod's do-not-disrupt annotation protects it.
type Protection struct {
	Active bool
	// Until is when a protection of limited length ends; the zero time means that it does not end by itself.
	Until time.Time
	// Invalid is the annotation's value if it is neither "true" nor a positive duration; such an annotation protects
	// nothing.
	Invalid string
}

// ProtectionOf reads the pod's do-not-disrupt annotation: "true", or a duration that counts from the pod's start. Pods
// that have ended or are ending are never protected.
func ProtectionOf(pod *corev1.Pod, now time.Time) Protection {
	value, ok := pod.Annotations[v1.DoNotDisruptAnnotationKey]
	if !ok || !IsActive(pod) {
		return Protection{}
	}
	if value == "true" {
		return Protection{Active: true}
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return Protection{Invalid: value}
	}
	if pod.Status.StartTime == nil {
		return Protection{Active: true}
	}
	until := pod.Status.StartTime.Add(d)
	return Protection{Active: now.Before(until), Until: until}
}

func PodID(pod metav1.Object) engine.PodID {
	return engine.PodID{Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUID()}
}

// DefaultRequests fills in the requests that the API server would: the defaults of the namespace's LimitRanges, then
// the limits, for every container that names none. It changes the pod.
func DefaultRequests(pod *corev1.Pod, ranges []*corev1.LimitRange) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			defaultContainer(&containers[i].Resources, ranges)
		}
	}
	if r := pod.Spec.Resources; r != nil {
		r.Requests = WithMissing(r.Requests, r.Limits)
	}
}

func defaultContainer(r *corev1.ResourceRequirements, ranges []*corev1.LimitRange) {
	// A limit that the author wrote comes before the range's default request, as in the API server.
	r.Requests = WithMissing(r.Requests, r.Limits)
	for _, lr := range ranges {
		for _, item := range lr.Spec.Limits {
			if item.Type == corev1.LimitTypeContainer {
				r.Limits = WithMissing(r.Limits, item.Default)
				r.Requests = WithMissing(r.Requests, item.DefaultRequest)
			}
		}
	}
	r.Requests = WithMissing(r.Requests, r.Limits)
}

// EvictionCost is upstream's cost of evicting a pod, 1 for one that says nothing about it, between -10 and 10.
func EvictionCost(pod *corev1.Pod) float64 {
	if IsBufferPod(pod) {
		return 0
	}
	cost := 1 + float64(deletionCost(pod))/(1<<27) + float64(priorityOf(pod))/(1<<25)
	return min(max(cost, -10), 10)
}

// WroteDeletionCost reports whether the pod's annotation for scaling down is one that this program wrote: it says nothing about
// what its owner wants.
func WroteDeletionCost(pod *corev1.Pod) bool {
	text, ok := pod.Annotations[v1.PodDeletionCostAnnotationKey]
	return ok && text == pod.Annotations[v1.WrittenDeletionCostAnnotationKey]
}

// deletionCost is what the pod says of itself: the annotation for disruption, even if it cannot be read, before the one for
// scaling down. A value that is no 32-bit number counts as 0.
func deletionCost(pod *corev1.Pod) int32 {
	if len(pod.Annotations) == 0 {
		return 0
	}
	text, ok := pod.Annotations[v1.DisruptionCostAnnotationKey]
	if !ok && !WroteDeletionCost(pod) {
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

// priorityOf is the pod's priority, 0 unless said.
func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// GraceOf is the pod's termination grace period. A pod without terminationGracePeriodSeconds has 30 seconds, the API server's default.
func GraceOf(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}
