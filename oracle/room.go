package oracle

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"tenon.sh/engine"
)

// note records the existing nodes that kube-scheduler accepts, at the pod's turn, for a pod that the plan places on a new machine.
func (r *replay) note(pod *corev1.Pod) error {
	verdicts, err := r.ask(pod, r.existing)
	if err != nil {
		return err
	}
	for _, v := range verdicts {
		if v.OK {
			r.passed[pod.UID] = append(r.passed[pod.UID], v.Node)
		}
	}
	return nil
}

// needless records unnecessary launches. A launch is unnecessary if two conditions hold: each of its pods had an accepted existing node at its
// turn, and at the end these nodes have room for all of its pods. If only some of its pods have room there, the launch is justified by the other
// pods.
func (r *replay) needless() error {
	for i := range r.plan.Launches {
		l := &r.plan.Launches[i]
		var pods []*corev1.Pod
		for _, id := range l.Pods {
			if pod := r.pods[id]; pod != nil && len(r.passed[pod.UID]) > 0 {
				pods = append(pods, next(pod))
			}
		}
		if len(pods) < len(l.Pods) || len(pods) == 0 {
			continue
		}
		moved, cause, err := r.vacate(pods)
		if err != nil {
			return err
		}
		switch {
		case moved < len(pods):
		case cause != "":
			r.report.excused(cause, 1)
		default:
			r.refuseLaunch(l, "Room", "existing nodes have room for all of its pods")
		}
		for k, pod := range pods[:min(moved+1, len(pods))] {
			if err := r.judge.Scheduler.Unbind(pod); k < moved && err != nil {
				return err
			}
			if err := r.judge.Scheduler.Bind(pod, nodeNameOf(l)); err != nil {
				return err
			}
		}
	}
	return nil
}

// vacate moves the pods of a machine to existing nodes until one finds no room. That pod is unbound then. cause is a possible reason for which
// the plan did not use these nodes.
func (r *replay) vacate(pods []*corev1.Pod) (moved int, cause string, err error) {
	scheduler := r.judge.Scheduler
	for _, pod := range pods {
		if err := scheduler.Unbind(pod); err != nil {
			return moved, "", err
		}
		verdicts, err := r.ask(pod, r.passed[pod.UID])
		if err != nil {
			return moved, "", err
		}
		home, why := "", ""
		for _, v := range verdicts {
			if !v.OK || home != "" && why == "" {
				continue
			}
			excuse, err := r.excuse(pod, v.Node)
			if err != nil {
				return moved, "", err
			}
			if home == "" || excuse == "" {
				home, why = v.Node, excuse
			}
		}
		cause = cmp.Or(cause, why)
		if home == "" {
			return moved, cause, nil
		}
		if err := scheduler.Bind(pod, home); err != nil {
			return moved, "", err
		}
		moved++
	}
	return moved, cause, nil
}

// excuse returns a reason for which the plan may prefer a new machine to the node for the pod. It returns "" if there is none.
func (r *replay) excuse(pod *corev1.Pod, node string) (string, error) {
	switch {
	case r.wishes(pod, node):
		return CauseWish, nil
	case hasCompany(pod):
		return CauseCompany, nil
	}
	return r.cause(pod, node, engine.Reason{})
}

// wishes reports whether the plan may have bought a machine because of a preference of the pod, of another pod or of the node.
func (r *replay) wishes(pod *corev1.Pod, node string) bool {
	if r.judge.Preferences == engine.Ignore {
		return false
	}
	return hasWish(pod, r.judge.DefaultConstraints) || r.isUnwelcome(pod, node) ||
		slices.ContainsFunc(r.snapshot.Pods, func(other *corev1.Pod) bool { return keepsAway(other, pod) })
}

// hasWish reports whether the pod has preferences.
func hasWish(pod *corev1.Pod, defaults []corev1.TopologySpreadConstraint) bool {
	constraints := pod.Spec.TopologySpreadConstraints
	if len(constraints) == 0 {
		constraints = defaults
	}
	if slices.ContainsFunc(constraints, func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == corev1.ScheduleAnyway }) {
		return true
	}
	a := pod.Spec.Affinity
	return a != nil && (a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAffinity != nil && len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0)
}

// isUnwelcome reports whether the node has a taint PreferNoSchedule.
func (r *replay) isUnwelcome(pod *corev1.Pod, node string) bool {
	i := slices.IndexFunc(r.cluster.Nodes, func(n *corev1.Node) bool { return n.Name == node })
	return i >= 0 && slices.ContainsFunc(r.cluster.Nodes[i].Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectPreferNoSchedule
	})
}

// keepsAway reports whether one pod prefers not to run near the other. Namespaces are ignored.
func keepsAway(pod, other *corev1.Pod) bool {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	return slices.ContainsFunc(pod.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, func(w corev1.WeightedPodAffinityTerm) bool {
		selector, err := metav1.LabelSelectorAsSelector(w.PodAffinityTerm.LabelSelector)
		return err == nil && selector.Matches(labels.Set(other.Labels))
	})
}

// hasCompany reports whether the pod has required affinity, because the plan then looks for room for all related pods.
func hasCompany(pod *corev1.Pod) bool {
	return pod.Spec.Affinity != nil && pod.Spec.Affinity.PodAffinity != nil &&
		len(pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}
