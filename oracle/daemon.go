package oracle

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"tenon.sh/engine/kube"
)

// notThere lists the plugins because of which a DaemonSet creates no pod for a node. If other plugins refuse, the pod exists and waits.
var notThere = []string{"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeDeclaredFeatures"}

// house binds pods of DaemonSets to all existing and future machines that do not run them yet, because plans have to leave room for these pods.
// Of pods with equal priority, every second world binds the last first.
func (r *replay) house(world int) error {
	for _, node := range r.names {
		if r.leaving[node] {
			continue
		}
		if _, err := r.houseOn(node, world%2 == 1); err != nil {
			return err
		}
	}
	return nil
}

// houseOn binds to the node the pods of DaemonSets that it lacks and that kube-scheduler accepts there. It returns these pods.
func (r *replay) houseOn(node string, backwards bool) ([]*corev1.Pod, error) {
	scheduler := r.judge.Scheduler
	pods, err := r.daemons(node)
	if err != nil {
		return nil, err
	}
	if backwards {
		slices.Reverse(pods)
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(priority(b), priority(a)) })
	var housed []*corev1.Pod
	for _, pod := range pods {
		verdicts, err := scheduler.Ask(pod, node)
		if err != nil {
			return nil, err
		}
		if !verdicts[0].OK {
			continue // another DaemonSet has its port or excludes it, or it is too large for the machine
		}
		if err := scheduler.Bind(pod, node); err != nil {
			return nil, err
		}
		r.housed[pod.UID] = true
		housed = append(housed, pod)
	}
	return housed, nil
}

// evacuate removes pods of DaemonSets from their node.
func (r *replay) evacuate(pods []*corev1.Pod) error {
	for _, pod := range pods {
		if err := r.judge.Scheduler.Unbind(pod); err != nil {
			return err
		}
		delete(r.housed, pod.UID)
	}
	return nil
}

func priority(pod *corev1.Pod) int32 { return ptr.Deref(pod.Spec.Priority, 0) }

// daemons lists the pods that DaemonSets will create for the node and that do not run there yet.
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
		return pod.Namespace == set.Namespace && pod.Spec.NodeName == node && !kube.IsTerminal(pod) &&
			slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" && o.Name == set.Name })
	})
}

// daemonPod returns the pod that the DaemonSet controller would create for the node.
func daemonPod(set *appsv1.DaemonSet, ranges []*corev1.LimitRange, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = set.Namespace, set.Name+"-on-"+node
	pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
	kube.DefaultRequests(pod, slices.DeleteFunc(slices.Clone(ranges), func(l *corev1.LimitRange) bool { return l.Namespace != set.Namespace }))
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeDiskPressure,
		corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return pod
}
