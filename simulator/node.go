package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/scheduler"
)

// show registers the node of a machine. show ignores a machine without a claim, because collect removes this machine.
func (w *World) show(m *market, id engine.MachineID, claimName string) {
	claim, ok := w.cluster.claims.get(claimName)
	machine, allocatable, found := m.cloud.Inspect(id)
	if !ok || !found || claim.DeletionTimestamp != nil || machine.Leaving || w.cluster.seats[claimName] != nil {
		return
	}
	labels := maps.Clone(claim.Labels)
	for _, r := range claim.Spec.Requirements {
		if r.Operator == v1.In && len(r.Values) == 1 {
			labels[r.Key] = r.Values[0]
		}
	}
	maps.Copy(labels, machine.Labels)
	labels[corev1.LabelHostname] = claimName
	w.cluster.uids++
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: claimName, UID: types.UID(fmt.Sprintf("node/%s/%d", claimName, w.cluster.uids)), ResourceVersion: strconv.Itoa(w.cluster.uids),
			Labels: labels, CreationTimestamp: metav1.NewTime(w.agenda.now),
		},
		Spec: corev1.NodeSpec{ProviderID: string(id), Taints: []corev1.Taint{
			{Key: v1.UnregisteredTaintKey, Effect: corev1.TaintEffectNoExecute},
			{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{Capacity: machine.Capacity, Allocatable: allocatable, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", LastTransitionTime: metav1.NewTime(w.agenda.now)},
		}},
	}
	m.cloud.Dress(node)
	w.addSeat(w.cluster.newSeat(node))
}

func (w *World) addSeat(s *seat) {
	w.cluster.seats[s.node.Name] = s
	w.cluster.seatList = append(w.cluster.seatList, s)
	w.cluster.touch(s)
	w.cluster.noteChange()
}

// makeReady makes the node ready, as the kubelet does.
func (w *World) makeReady(s *seat) {
	node := s.node.DeepCopy()
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.NewTime(w.agenda.now),
	}}
	w.setNode(s, node)
}

// setNode replaces the stored node.
func (w *World) setNode(s *seat, node *corev1.Node) {
	w.cluster.uids++
	node.ResourceVersion = strconv.Itoa(w.cluster.uids)
	s.node, s.leaving, s.room = node, node.DeletionTimestamp != nil, w.cluster.resources.amountsIn(node.Status.Allocatable)
	if isOpen(node) {
		w.pending.pods = true
		w.daemons(s)
	}
	w.cluster.touch(s)
	w.boot(s)
	w.cluster.noteChange()
}

// agentTime is how long the agents of a ready node take to remove its startup taints.
const agentTime = 10 * time.Second

// boot removes the startup taints of a ready node after agentTime.
func (w *World) boot(s *seat) {
	claim := w.cluster.claimOf(s)
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
	w.agenda.after(agentTime, func() {
		if w.cluster.seats[s.node.Name] == s {
			node := s.node.DeepCopy()
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, starting)
			w.setNode(s, node)
		}
	})
}

// lose ends a machine: its pods stop serving, and the cloud's controller deletes its node.
func (w *World) lose(s *seat) {
	s.alive = false
	node := s.node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", LastTransitionTime: metav1.NewTime(w.agenda.now),
	}}
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule})
	for _, u := range slices.Clone(s.units) {
		w.pods.unready(u)
	}
	w.setNode(s, node)
	w.deleteNode(s)
}

// deleteNode deletes a node, or sets its deletion timestamp if it has finalizers.
func (w *World) deleteNode(s *seat) {
	if len(s.node.Finalizers) == 0 {
		w.removeSeat(s)
		return
	}
	if s.node.DeletionTimestamp == nil {
		node := s.node.DeepCopy()
		node.DeletionTimestamp = new(metav1.NewTime(w.agenda.now))
		w.setNode(s, node)
		w.timetable.wantMachines()
	}
}

// removeSeat removes a node, with the pods that are still bound to it.
func (w *World) removeSeat(s *seat) {
	for _, u := range slices.Clone(s.units) {
		w.pods.drop(u)
	}
	w.cluster.touch(s)
	delete(w.cluster.seats, s.node.Name)
	w.cluster.base.CSINodes = slices.DeleteFunc(slices.Clone(w.cluster.base.CSINodes), func(c *storagev1.CSINode) bool { return c.Name == s.node.Name })
	w.cluster.seatList = slices.DeleteFunc(w.cluster.seatList, func(o *seat) bool { return o == s })
	w.cluster.devices.unpublish(s.node.Name)
	w.cluster.noteChange()
}

// daemons starts the pods of DaemonSets on a node that has become ready for them.
func (w *World) daemons(s *seat) {
	for _, d := range w.cluster.base.DaemonSets {
		owned := func(u *unit) bool {
			return len(u.pod.OwnerReferences) > 0 && u.pod.OwnerReferences[0].Kind == "DaemonSet" && u.pod.OwnerReferences[0].Name == d.Name && u.pod.Namespace == d.Namespace
		}
		if slices.ContainsFunc(s.units, owned) {
			continue
		}
		pod := w.daemonPod(d, s)
		// A replay on the bare node shows whether the DaemonSet runs there.
		bare := *s.node
		bare.Spec.Taints = slices.DeleteFunc(slices.Clone(bare.Spec.Taints), kube.IsEphemeralTaint)
		replay := scheduler.Replay{Snapshot: &engine.Snapshot{Nodes: []*corev1.Node{&bare}}, Pods: []*corev1.Pod{pod}}
		if len(replay.Land().Placements) == 0 {
			continue
		}
		placed := *pod
		placed.Spec.NodeName = s.node.Name
		placed.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.agenda.now)}}
		u := &unit{pod: &placed}
		w.pods.add(u)
		w.cluster.podsChanged(s)
		w.pods.start(u)
	}
}

func (w *World) daemonPod(d *appsv1.DaemonSet, s *seat) *corev1.Pod {
	w.cluster.uids++
	pod := &corev1.Pod{Spec: d.Spec.Template.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	pod.Namespace, pod.Name = d.Namespace, d.Name+"-"+s.node.Name
	pod.UID = types.UID(fmt.Sprintf("%s/%s/%d", pod.Namespace, pod.Name, w.cluster.uids))
	pod.ResourceVersion = strconv.Itoa(w.cluster.uids)
	pod.CreationTimestamp = metav1.NewTime(w.agenda.now)
	pod.Labels, pod.Annotations = d.Spec.Template.Labels, d.Spec.Template.Annotations
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: d.Name, UID: d.UID, Controller: new(true)}}
	return pod
}
