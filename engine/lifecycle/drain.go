package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

const (
	// drainCheck is the longest time between two looks at a drain without changes.
	drainCheck = 10 * time.Second
	// tellAfter is the age from which a drain reports its blockers: each drain of a pod with a budget is blocked for a moment.
	tellAfter = 5 * time.Second
	// quietDrain is the age from which a drain always reports why it waits.
	quietDrain = 30 * time.Second
)

// drain evicts the pods, in four tiers, and reports whether all are gone. It returns true only if the pods were listed from the API server itself
// after the taint.
func (term *termination) drain() bool {
	if len(term.nodes) == 0 {
		return true
	}
	waiting := waitingPods(term.Pods, term.Now)
	if len(waiting) > 0 {
		if term.claim != nil && v1.GetCondition(term.claim, v1.ConditionDrained) == nil {
			term.condition(v1.ConditionDrained, metav1.ConditionUnknown, "Draining", "")
		}
		term.evict(waiting)
		return false
	}
	if left := term.unsettled(); left > 0 {
		term.step.by(left)
		return false
	}
	if !term.Fresh {
		term.step.Ask = AskPods
		return false
	}
	term.condition(v1.ConditionDrained, metav1.ConditionTrue, "", "")
	return true
}

// unsettled returns the time for which the nodes' taint must still exist before the nodes are treated as drained.
func (term *termination) unsettled() time.Duration {
	if term.claim == nil {
		return term.nodes[0].DeletionTimestamp.Add(settle).Sub(term.Now)
	}
	c := v1.GetCondition(term.claim, v1.ConditionDrained)
	if c.Status == metav1.ConditionTrue {
		return 0
	}
	return c.LastTransitionTime.Add(settle).Sub(term.Now)
}

// waitingPods returns the pods for which a drain waits, large ones first.
func waitingPods(pods []*corev1.Pod, now time.Time) []*corev1.Pod {
	var waiting []*corev1.Pod
	size := make(map[*corev1.Pod]int64, len(pods)) // sorting compares each pod several times
	for _, p := range pods {
		if kube.IsDrainable(p, now) && !kube.IsTerminal(p) {
			waiting = append(waiting, p)
			size[p] = kube.PodSize(p)
		}
	}
	slices.SortFunc(waiting, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(size[b], size[a]), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return waiting
}

// evict selects the pods to evict now: those for which the deadline leaves no more time, and the first nonempty tier of the others. Pods that
// are protected, already ending, or waiting for other pods of their workload keep their tier occupied.
func (term *termination) evict(waiting []*corev1.Pod) {
	term.step.by(drainCheck)
	var patient []*corev1.Pod
	for _, p := range waiting {
		if !term.overdue(p) {
			patient = append(patient, p)
			continue
		}
		if grace := term.graceLeft(); !kube.IsTerminating(p) || p.DeletionTimestamp.Sub(term.Now) > time.Duration(grace+1)*time.Second {
			term.step.Evict = append(term.step.Evict, Eviction{Pod: p, Force: true, Grace: grace})
		}
	}
	tier := firstTier(patient)
	for _, p := range tier {
		protection := kube.ProtectionOf(p, term.Now)
		if protection.Invalid != "" {
			term.tell(p, true, eventInvalidProtection, fmt.Sprintf("annotation %s is %q: want \"true\" or a duration such as 30m; it is ignored",
				v1.DoNotDisruptAnnotationKey, protection.Invalid))
		}
		switch {
		case kube.IsTerminating(p):
			term.step.by(p.DeletionTimestamp.Add(time.Minute + time.Second).Sub(term.Now))
		case protection.Active:
			if !protection.Until.IsZero() {
				term.step.by(protection.Until.Sub(term.Now))
				term.step.Events = append(term.step.Events, engine.ProtectedUntil(p, protection.Until))
			}
		case !term.mayGo(p):
		default:
			if !protection.Until.IsZero() {
				term.tell(p, false, eventProtectionEnded, fmt.Sprintf("annotation %s protected the pod until %s", v1.DoNotDisruptAnnotationKey, engine.ClockText(protection.Until)))
			}
			term.step.Evict = append(term.step.Evict, Eviction{Pod: p})
		}
	}
	term.tellDrain(len(waiting), tier)
}

// overdue reports whether the deadline leaves the pod at most its own grace period. If not, it requests a look at the time when that will be so.
func (term *termination) overdue(p *corev1.Pod) bool {
	if term.deadline.IsZero() {
		return false
	}
	if kube.IsTerminating(p) {
		return p.DeletionTimestamp.After(term.deadline)
	}
	left := term.deadline.Add(-kube.GraceOf(p)).Sub(term.Now)
	if left > 0 {
		term.step.by(left)
	}
	return left <= 0
}

// graceLeft returns the grace period in seconds of a pod that is deleted by force; never 0, which would remove the pod from the API while it
// still runs.
func (term *termination) graceLeft() int64 {
	return max(int64(term.deadline.Sub(term.Now)/time.Second), 1)
}

// firstTier returns the first group of pods to evict together: ordinary pods before critical ones, and within each, DaemonSet pods last, because the
// other pods may need them to the end.
func firstTier(pods []*corev1.Pod) []*corev1.Pod {
	var tiers [4][]*corev1.Pod
	for _, p := range pods {
		i := 0
		if p.Spec.PriorityClassName == "system-cluster-critical" || p.Spec.PriorityClassName == "system-node-critical" {
			i = 2
		}
		if kube.OwnedByDaemonSet(p) {
			i++
		}
		tiers[i] = append(tiers[i], p)
	}
	for _, tier := range tiers {
		if len(tier) > 0 {
			return tier
		}
	}
	return nil
}
