package oracle

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
)

// notThere are the plugins that decide whether a DaemonSet has a pod for a node at all; the others only make it wait.
var notThere = []string{"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeDeclaredFeatures"}

// house binds to each machine that is new, or still starting, the pods that DaemonSets will run there: they come first, and
// the plan has to leave room for them.
func (r *replay) house() error {
	scheduler := r.judge.Scheduler
	for _, m := range r.machines {
		pods, err := r.daemons(m.name)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			verdicts, err := scheduler.Ask(pod, m.name)
			if err != nil {
				return err
			}
			if !verdicts[0].OK {
				continue // another DaemonSet has its port, or it is too large for the machine
			}
			if err := scheduler.Bind(pod, m.name); err != nil {
				return err
			}
			r.housed[pod.UID] = true
		}
	}
	return nil
}

// daemons lists the pods that DaemonSets will run on the node and do not run there yet.
func (r *replay) daemons(node string) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	for _, set := range r.snapshot.DaemonSets {
		if set.DeletionTimestamp != nil || r.runs(set, node) {
			continue
		}
		pod := daemonPod(set, r.snapshot.LimitRanges, node)
		if r.housed[pod.UID] {
			continue
		}
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
