package simulator

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/scheduler"
)

// nodes changes the nodes of the cluster, as their kubelets and the controllers of nodes and DaemonSets do.
type nodes struct {
	agenda    *agenda
	pending   *pending
	timetable *timetable
	cluster   *cluster
	pods      *pods
}

// add adds a node to the cluster.
func (n *nodes) add(s *seat) {
	n.cluster.addSeat(s)
	n.cluster.touch(s)
	n.cluster.noteChange()
}

// makeReady makes the node ready, as the kubelet does.
func (n *nodes) makeReady(s *seat) {
	node := s.node.DeepCopy()
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.NewTime(n.agenda.now),
	}}
	n.set(s, node)
}

// set replaces the stored node.
func (n *nodes) set(s *seat, node *corev1.Node) {
	node.ResourceVersion = strconv.Itoa(n.cluster.nextID())
	s.node, s.leaving, s.room = node, node.DeletionTimestamp != nil, n.cluster.resources.amountsIn(node.Status.Allocatable)
	if isOpen(node) {
		n.pending.pods = true
		n.daemons(s)
	}
	n.cluster.touch(s)
	n.boot(s)
	n.cluster.noteChange()
}

// agentTime is how long the agents of a ready node take to remove its startup taints.
const agentTime = 10 * time.Second

// boot removes the startup taints of a ready node after agentTime.
func (n *nodes) boot(s *seat) {
	claim := n.cluster.claimOf(s)
	if claim == nil || s.booting || !isNodeReady(s.node) {
		return
	}
	starting := func(t corev1.Taint) bool {
		return slices.ContainsFunc(v1.CoreTaints(claim.Spec.StartupTaints), func(o corev1.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect })
	}
	if !slices.ContainsFunc(s.node.Spec.Taints, starting) {
		return
	}
	s.booting = true
	n.agenda.after(agentTime, func() {
		if n.cluster.seats[s.node.Name] == s {
			node := s.node.DeepCopy()
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, starting)
			n.set(s, node)
		}
	})
}

// lose ends a machine: its pods stop serving, and the cloud's controller deletes its node.
func (n *nodes) lose(s *seat) {
	s.alive = false
	node := s.node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", LastTransitionTime: metav1.NewTime(n.agenda.now),
	}}
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule})
	for _, u := range slices.Clone(s.units) {
		n.pods.unready(u)
	}
	n.set(s, node)
	n.delete(s)
}

// delete deletes a node, or sets its deletion timestamp if it has finalizers.
func (n *nodes) delete(s *seat) {
	if len(s.node.Finalizers) == 0 {
		n.remove(s)
		return
	}
	if s.node.DeletionTimestamp == nil {
		node := s.node.DeepCopy()
		node.DeletionTimestamp = new(metav1.NewTime(n.agenda.now))
		n.set(s, node)
		n.timetable.wantMachines()
	}
}

// remove removes a node, with the pods that are still bound to it.
func (n *nodes) remove(s *seat) {
	for _, u := range slices.Clone(s.units) {
		n.pods.drop(u)
	}
	n.cluster.touch(s)
	n.cluster.removeSeat(s)
	n.cluster.noteChange()
}

// daemons starts the pods of DaemonSets on a node that has become ready for them.
func (n *nodes) daemons(s *seat) {
	for _, d := range n.cluster.base.DaemonSets {
		owned := func(u *unit) bool {
			return len(u.pod.OwnerReferences) > 0 && u.pod.OwnerReferences[0].Kind == "DaemonSet" && u.pod.OwnerReferences[0].Name == d.Name && u.pod.Namespace == d.Namespace
		}
		if slices.ContainsFunc(s.units, owned) {
			continue
		}
		pod := n.daemonPod(d, s)
		// A replay on the bare node shows whether the DaemonSet runs there.
		bare := *s.node
		bare.Spec.Taints = slices.DeleteFunc(slices.Clone(bare.Spec.Taints), kube.IsEphemeralTaint)
		replay := scheduler.Replay{Snapshot: &engine.Snapshot{Nodes: []*corev1.Node{&bare}}, Pods: []*corev1.Pod{pod}}
		if len(replay.Land().Placements) == 0 {
			continue
		}
		placed := *pod
		placed.Spec.NodeName = s.node.Name
		placed.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(n.agenda.now)}}
		u := &unit{pod: &placed}
		n.pods.add(u)
		n.cluster.podsChanged(s)
		n.pods.start(u)
	}
}

func (n *nodes) daemonPod(d *appsv1.DaemonSet, s *seat) *corev1.Pod {
	serial := n.cluster.nextID()
	pod := &corev1.Pod{Spec: d.Spec.Template.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	pod.Namespace, pod.Name = d.Namespace, d.Name+"-"+s.node.Name
	pod.UID = types.UID(fmt.Sprintf("%s/%s/%d", pod.Namespace, pod.Name, serial))
	pod.ResourceVersion = strconv.Itoa(serial)
	pod.CreationTimestamp = metav1.NewTime(n.agenda.now)
	pod.Labels, pod.Annotations = d.Spec.Template.Labels, d.Spec.Template.Annotations
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: d.Name, UID: d.UID, Controller: new(true)}}
	return pod
}

// release removes Tenon's finalizer from a node.
func (n *nodes) release(s *seat) {
	node := s.node.DeepCopy()
	node.Finalizers = slices.DeleteFunc(node.Finalizers, func(f string) bool { return f == v1.TerminationFinalizer })
	s.node = node
	if len(node.Finalizers) == 0 && node.DeletionTimestamp != nil {
		n.remove(s)
	}
}

func isNodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
