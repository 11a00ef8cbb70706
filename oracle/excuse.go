package oracle

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
)

// unplaced asks about every existing node for every pod that the plan leaves out. All pods that it places run by now. What
// kube-scheduler accepts is asked again later.
func (r *replay) unplaced() error {
	known := len(r.report.Disagreements)
	if err := r.askUnplaced(); err != nil {
		return err
	}
	r.accepted = slices.Clone(r.report.Disagreements[known:])
	r.report.Disagreements = r.report.Disagreements[:known]
	return nil
}

// doubt asks again in another world, or while other pods are still ending. The engine knows neither how machines turn out
// nor when pods are gone, so it may refuse a node that would do at one time and not at another.
func (r *replay) doubt() error {
	var still []Disagreement
	for _, d := range r.accepted {
		pod := r.pods[d.Pod]
		if pod == nil || d.Placed {
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

// refused asks about every existing node for a pod that the plan leaves out.
func (r *replay) refused(pod *corev1.Pod, reason engine.Reason) error {
	verdicts, err := r.askAlone(pod, r.existing)
	if err != nil {
		return err
	}
	for _, v := range verdicts {
		if err := r.tolerate(next(pod), v, reason); err != nil {
			return err
		}
	}
	return nil
}

// next is the pod that asks for a node: the pod itself, or its successor if it runs.
func next(pod *corev1.Pod) *corev1.Pod {
	if pod.Spec.NodeName != "" {
		return successor(pod)
	}
	return pod
}

// askAlone asks about nodes for a pod that the plan leaves out. One that still runs on a node that leaves is taken off it for
// that.
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

// compare holds a verdict against the engine's own opinion, if it gives one.
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

// tolerate notes a node that the engine refuses and kube-scheduler accepts, as excused if there is a cause.
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

// cause finds out why the engine may refuse what kube-scheduler accepts, empty if nothing excuses it.
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
	refused, err := r.without(pod, node, append(r.nominated(node), daemons...))
	if refused {
		return CauseDaemonSet, err
	}
	return "", err
}

// without reports whether kube-scheduler refuses the pod as soon as these others run on the node as well.
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

// nominated lists the pods that are nominated to the node and that the plan says nothing of.
func (r *replay) nominated(node string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range r.snapshot.Pods {
		id := engine.PodID{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
		refused := slices.ContainsFunc(r.plan.Unplaced, func(u engine.Unplaced) bool { return u.Pod == id })
		if pod.Status.NominatedNodeName == node && pod.Spec.NodeName == "" && !engine.IsTerminal(pod) && r.where[id] == "" && !refused {
			out = append(out, pod)
		}
	}
	return out
}

// notThere are the plugins that decide whether a DaemonSet has a pod for a node at all; the others only make it wait.
var notThere = []string{"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeDeclaredFeatures"}

// daemons lists the pods that DaemonSets will run on the node and do not run there yet.
func (r *replay) daemons(node string) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	for _, set := range r.snapshot.DaemonSets {
		if set.DeletionTimestamp != nil || r.runs(set, node) {
			continue
		}
		pod := daemonPod(set, r.snapshot.LimitRanges, node)
		verdicts, err := r.judge.Scheduler.Ask(pod, node)
		if err != nil {
			return nil, err
		}
		if v := verdicts[0]; v.OK || !slices.Contains(notThere, v.Plugin) {
			out = append(out, pod)
		}
	}
	return out, nil
}

func (r *replay) runs(set *appsv1.DaemonSet, node string) bool {
	return slices.ContainsFunc(r.snapshot.Pods, func(pod *corev1.Pod) bool {
		return pod.Namespace == set.Namespace && pod.Spec.NodeName == node && !engine.IsTerminal(pod) &&
			slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" && o.Name == set.Name })
	})
}

// daemonPod is the pod that the DaemonSet's controller would make for the node.
func daemonPod(set *appsv1.DaemonSet, ranges []*corev1.LimitRange, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = set.Namespace, set.Name+"-on-"+node
	pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
	engine.DefaultRequests(pod, slices.DeleteFunc(slices.Clone(ranges), func(l *corev1.LimitRange) bool { return l.Namespace != set.Namespace }))
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeDiskPressure,
		corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return pod
}
