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

// IsPending reports whether the pod waits for a machine: kube-scheduler has found no node for it, and no DaemonSet or kubelet runs it. A pod with
// scheduling gates never waits, whatever its status says, because kube-scheduler never tries it. A pod that is nominated to a node does not wait
// either; provisioning.Plan checks that itself, because the node may be gone.
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

// SchedulerWords returns kube-scheduler's last message about the pod.
func SchedulerWords(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Message != "" {
			return c.Message
		}
	}
	return "nothing"
}

// IsUntried reports whether kube-scheduler may place the pod and has not tried it yet.
func IsUntried(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0 && IsActive(pod) && !OwnedByDaemonSet(pod) && !IsMirror(pod) &&
		!slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
}

// IsQueued reports whether the pod waits in kube-scheduler's queues, tried or not.
func IsQueued(pod *corev1.Pod) bool { return IsPending(pod) || IsUntried(pod) }

// IsTerminal reports whether the pod has run to its end.
func IsTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// IsTerminating reports whether the pod is being deleted.
func IsTerminating(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

func IsActive(pod *corev1.Pod) bool { return !IsTerminal(pod) && !IsTerminating(pod) }

// IsStuckTerminating reports whether the pod should have been gone for more than a minute. Its deletion timestamp
// already includes its grace period.
func IsStuckTerminating(pod *corev1.Pod, now time.Time) bool {
	return IsTerminating(pod) && now.After(pod.DeletionTimestamp.Add(time.Minute))
}

// OwnedByDaemonSet reports whether a DaemonSet runs the pod.
func OwnedByDaemonSet(pod *corev1.Pod) bool { return OwnedBy(pod, "apps/v1", "DaemonSet") }

// IsMirror reports whether a kubelet runs the pod from a file.
func IsMirror(pod *corev1.Pod) bool { return OwnedBy(pod, "v1", "Node") }

func OwnedBy(pod *corev1.Pod, apiVersion, kind string) bool {
	for _, o := range pod.OwnerReferences {
		if o.APIVersion == apiVersion && o.Kind == kind {
			return true
		}
	}
	return false
}

// IsReschedulable reports whether the pod needs another node if its own node is removed. A terminating pod of a StatefulSet needs one, because its
// successor is created only afterwards.
func IsReschedulable(pod *corev1.Pod) bool {
	if OwnedByDaemonSet(pod) || IsMirror(pod) || IsTerminal(pod) {
		return false
	}
	return !IsTerminating(pod) || OwnedBy(pod, "apps/v1", "StatefulSet")
}

// IsDrainable reports whether a drain waits for the pod to leave. It does not wait for pods that tolerate the disrupted taint, mirror pods and
// pods that are stuck terminating.
func IsDrainable(pod *corev1.Pod, now time.Time) bool {
	return !IsMirror(pod) && !ToleratesDisruption(pod) && !IsStuckTerminating(pod, now)
}

func ToleratesDisruption(pod *corev1.Pod) bool {
	return Tolerates(pod.Spec.Tolerations, corev1.Taint{Key: v1.DisruptedTaintKey, Effect: corev1.TaintEffectNoSchedule})
}

// Protection is the protection of a pod by its do-not-disrupt annotation.
type Protection struct {
	Active bool
	// Until is the end of a limited protection; the zero time means no end.
	Until time.Time
	// Invalid is the annotation's value if it is neither "true" nor a positive duration; such an annotation protects
	// nothing.
	Invalid string
}

// ProtectionOf reads the pod's do-not-disrupt annotation: "true", or a duration from the pod's start. Pods that have ended or are ending are
// never protected.
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

// DefaultRequests fills in missing requests like the API server: with the limits, and with the defaults of the namespace's LimitRanges. It
// changes the pod.
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
	// A container's own limit takes precedence over the range's default request, as in the API server.
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

// EvictionCost returns upstream's cost of evicting a pod, 1 by default, between -10 and 10.
func EvictionCost(pod *corev1.Pod) float64 {
	if IsBufferPod(pod) {
		return 0
	}
	cost := 1 + float64(deletionCost(pod))/(1<<27) + float64(priorityOf(pod))/(1<<25)
	return min(max(cost, -10), 10)
}

// WroteDeletionCost reports whether Tenon wrote the pod's deletion-cost annotation. If so, the cost does not express a wish of the pod's owner.
func WroteDeletionCost(pod *corev1.Pod) bool {
	text, ok := pod.Annotations[v1.PodDeletionCostAnnotationKey]
	return ok && text == pod.Annotations[v1.WrittenDeletionCostAnnotationKey]
}

// deletionCost returns the cost from the pod's annotations: the one for disruption, even if unreadable, takes precedence over the one for
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
		return 0 // the usual case
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// priorityOf returns the pod's priority, 0 by default.
func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// GraceOf returns the pod's termination grace period, by default 30 seconds as in the API server.
func GraceOf(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}
