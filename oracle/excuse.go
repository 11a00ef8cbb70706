package oracle

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// unplaced asks kube-scheduler about all existing nodes for each pod that the plan does not place, after all placed pods run. It keeps the
// accepted nodes, which doubt asks about again later.
func (r *replay) unplaced() error {
	known := len(r.report.Disagreements)
	if err := r.askUnplaced(); err != nil {
		return err
	}
	r.accepted = slices.Clone(r.report.Disagreements[known:])
	r.report.Disagreements = r.report.Disagreements[:known]
	return nil
}

// doubt asks about the accepted nodes again, in another world or while other pods are still ending. The engine knows neither which machines the
// cloud will start nor when pods end. So it may refuse a node that kube-scheduler accepts only in some cases.
func (r *replay) doubt() error {
	var still []Disagreement
	for _, d := range r.accepted {
		pod := r.pods[d.Pod]
		if pod == nil || d.Placed || d.Plugin != "" {
			still = append(still, d)
			continue
		}
		verdicts, err := r.askAlone(pod, []string{d.Node})
		if err != nil {
			return err
		}
		known := len(r.report.Disagreements)
		if err := r.tolerate(next(pod), verdicts[0], d.Reason); err != nil {
			return err
		}
		if len(r.report.Disagreements) > known {
			still = append(still, d)
			r.report.Disagreements = r.report.Disagreements[:known]
		}
	}
	r.accepted = still
	return nil
}

func (r *replay) askUnplaced() error {
	for _, u := range r.plan.Unplaced {
		pod := r.pods[u.Pod]
		if pod == nil {
			r.object(0, u.Pod, "", "Snapshot", "there is no such pod")
			continue
		}
		reason := engine.Reason{}
		if len(u.Reasons) > 0 {
			reason = u.Reasons[0]
		}
		if err := r.refused(pod, reason); err != nil {
			return err
		}
	}
	return nil
}

// refused asks about all existing nodes for a pod that the plan does not place.
func (r *replay) refused(pod *corev1.Pod, reason engine.Reason) error {
	verdicts, err := r.askAlone(pod, r.existing)
	if err != nil {
		return err
	}
	for _, v := range verdicts {
		if v.Plugin == devicesPlugin && reason.Code != engine.FeatureNotSupported {
			r.report.Disagreements = append(r.report.Disagreements, Disagreement{
				Seed: r.judge.Seed, Pod: engine.PodID{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, Node: v.Node, Plugin: v.Plugin, Reason: reason,
			})
			break
		}
		if err := r.tolerate(next(pod), v, reason); err != nil {
			return err
		}
	}
	return nil
}

// devicesPlugin refuses pods that use devices. For these pods, the engine must report that it does not plan for them.
const devicesPlugin = "DynamicResources"

// next returns the pod to be scheduled: the pod itself, or its successor if it runs.
func next(pod *corev1.Pod) *corev1.Pod {
	if pod.Spec.NodeName != "" {
		return successor(pod)
	}
	return pod
}

// askAlone asks about nodes for a pod that the plan does not place. If the pod still runs on a node that leaves, it is unbound meanwhile.
func (r *replay) askAlone(pod *corev1.Pod, nodes []string) ([]Verdict, error) {
	home := pod.Spec.NodeName
	if r.gone[pod] {
		home = ""
	}
	if home != "" {
		if err := r.judge.Scheduler.Unbind(pod); err != nil {
			return nil, err
		}
	}
	verdicts, err := r.ask(next(pod), nodes)
	if err != nil {
		return nil, err
	}
	if home != "" {
		return verdicts, r.judge.Scheduler.Bind(pod, home)
	}
	return verdicts, nil
}

// compare compares a verdict with the engine's opinion, if there is one.
func (r *replay) compare(step int, pod *corev1.Pod, v Verdict) error {
	if r.judge.Opinion == nil {
		return nil
	}
	id := engine.PodID{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	reason := r.judge.Opinion(r.snapshot, r.plan, step, id, strings.TrimPrefix(v.Node, launchPrefix))
	switch {
	case v.OK && !reason.OK():
		return r.tolerate(pod, v, reason)
	case !v.OK && reason.OK():
		r.object(0, id, v.Node, v.Plugin, v.Message)
	}
	return nil
}

// tolerate records a node that the engine refuses and kube-scheduler accepts. The report lists it as excused if there is a cause for the refusal,
// and as a disagreement if not.
func (r *replay) tolerate(pod *corev1.Pod, v Verdict, reason engine.Reason) error {
	if !v.OK {
		return nil
	}
	cause, err := r.cause(pod, v.Node, reason)
	if err != nil {
		return err
	}
	if cause != "" {
		r.report.excused(cause, 1)
		return nil
	}
	r.report.Disagreements = append(r.report.Disagreements, Disagreement{
		Seed: r.judge.Seed, Pod: engine.PodID{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, Node: v.Node, Reason: reason,
	})
	return nil
}

// cause returns the reason for which the engine may refuse a node that kube-scheduler accepts. It returns "" if there is none.
func (r *replay) cause(pod *corev1.Pod, node string, reason engine.Reason) (string, error) {
	if reason.Code == engine.FeatureNotSupported {
		return string(reason.Code), nil
	}
	if r.leaving[node] {
		return CauseLeaving, nil
	}
	if refused, err := r.without(pod, node, r.nominated(node)); refused || err != nil {
		return CauseNominated, err
	}
	daemons, err := r.daemons(node)
	if err != nil {
		return "", err
	}
	if refused, err := r.without(pod, node, append(r.nominated(node), daemons...)); refused || err != nil {
		return CauseDaemonSet, err
	}
	if refused, err := r.onceGone(pod, node); refused || err != nil {
		return CauseLeaving, err
	}
	if (reason.Code == engine.SpreadNotMet || reason.Code == engine.AntiAffinityNotMet) && slices.ContainsFunc(r.snapshot.DaemonSets, wavers) {
		return CauseDaemonSet, nil
	}
	return "", nil
}

// wavers reports whether pods on other nodes decide on which nodes the DaemonSet has pods. The engine counts the DaemonSet's possible pods on
// the node that it considers, but not on other nodes.
func wavers(set *appsv1.DaemonSet) bool {
	a := set.Spec.Template.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil && slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		func(t corev1.PodAffinityTerm) bool { return t.TopologyKey != corev1.LabelHostname }))
}

// onceGone reports whether kube-scheduler will refuse the pod as soon as the leaving nodes have no topology domains.
func (r *replay) onceGone(pod *corev1.Pod, node string) (bool, error) {
	scheduler := r.judge.Scheduler
	found := false
	for _, n := range r.cluster.Nodes {
		if !r.leaving[n.Name] {
			continue
		}
		bare := n.DeepCopy()
		bare.Labels, found = nil, true
		if err := scheduler.AddNode(bare, nil); err != nil {
			return false, err
		}
	}
	if !found {
		return false, nil
	}
	verdicts, err := scheduler.Ask(pod, node)
	if err != nil {
		return false, err
	}
	for _, n := range r.cluster.Nodes {
		if r.leaving[n.Name] {
			if err := scheduler.AddNode(n, nil); err != nil {
				return false, err
			}
		}
	}
	return !verdicts[0].OK, nil
}

// without reports whether kube-scheduler refuses the pod if the other pods run on the node too.
func (r *replay) without(pod *corev1.Pod, node string, others []*corev1.Pod) (bool, error) {
	if len(others) == 0 {
		return false, nil
	}
	scheduler := r.judge.Scheduler
	for _, other := range others {
		if err := scheduler.Bind(other, node); err != nil {
			return false, err
		}
	}
	verdicts, err := scheduler.Ask(pod, node)
	if err != nil {
		return false, err
	}
	for _, other := range others {
		if err := scheduler.Unbind(other); err != nil {
			return false, err
		}
	}
	return !verdicts[0].OK, nil
}

// nominated lists the pods that are nominated to the node and that the plan neither places nor refuses.
func (r *replay) nominated(node string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range r.snapshot.Pods {
		id := engine.PodID{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
		refused := slices.ContainsFunc(r.plan.Unplaced, func(u engine.Unplaced) bool { return u.Pod == id })
		if pod.Status.NominatedNodeName == node && pod.Spec.NodeName == "" && !kube.IsTerminal(pod) && r.where[id] == "" && !refused {
			out = append(out, pod)
		}
	}
	return out
}
