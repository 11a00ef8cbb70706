package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/simulated"
)

// carryOut applies a fault to a machine's node, or tries again later if the node is not ready for it.
func (k *machines) carryOut(m *market, x simulated.NodeFault) {
	running, _ := m.running.get(string(x.Machine))
	s := k.cluster.seats[k.nodeNamed(running)]
	switch {
	case s == nil || s.node.Spec.ProviderID != string(x.Machine) || !s.alive || s.leaving:
		if running.seat { // the node leaves or is gone: the fault cannot happen any more
			m.cloud.Settle(x.ID)
		} else {
			k.agenda.after(Moment, func() { k.look(m) })
		}
		return
	case x.Fault.What == simulated.FaultLabel && s.node.Labels[v1.RegisteredLabelKey] != "true":
		k.agenda.after(Moment, func() { k.look(m) })
		return
	}
	m.cloud.Settle(x.ID)
	switch x.Fault.What {
	case simulated.FaultLabel:
		node := s.node.DeepCopy()
		x.Relabel(node)
		k.nodes.set(s, node)
		k.stir(m)
	case simulated.FaultDevices:
		node := s.node.DeepCopy()
		x.Show(node)
		k.nodes.set(s, node)
		k.stir(m)
	case simulated.FaultAttach:
		k.cluster.base.CSINodes = append(slices.Clone(k.cluster.base.CSINodes), x.CSINode(s.node))
		k.cluster.noteChange()
	case simulated.FaultSlices:
		if k.cluster.devices.publish(x.Slice(s.node)) {
			k.nodes.set(s, s.node.DeepCopy())
		}
		k.stir(m)
	case simulated.FaultSecond:
		k.showSecond(s)
	default:
		node := s.node.DeepCopy()
		node.Finalizers = nil
		s.node = node
		k.nodes.remove(s)
		k.timetable.wantMachines()
		if x.Fault.What == simulated.FaultBare {
			running.seat, running.ready = false, false
			m.running.put(string(x.Machine), running)
			k.stir(m)
		}
	}
}

// showSecond registers a second node of the machine.
func (k *machines) showSecond(first *seat) {
	name := first.node.Name + simulated.SecondSuffix
	if k.cluster.seats[name] != nil {
		return
	}
	serial := k.cluster.nextID()
	labels := maps.Clone(first.node.Labels)
	delete(labels, v1.RegisteredLabelKey)
	delete(labels, v1.InitializedLabelKey)
	labels[corev1.LabelHostname] = name
	s := k.cluster.newSeat(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(fmt.Sprintf("node/%s/%d", name, serial)), ResourceVersion: strconv.Itoa(serial),
			Labels: labels, CreationTimestamp: metav1.NewTime(k.agenda.now),
		},
		Spec:   corev1.NodeSpec{ProviderID: first.node.Spec.ProviderID, Taints: []corev1.Taint{v1.UnregisteredTaint()}},
		Status: corev1.NodeStatus{Capacity: first.node.Status.Capacity, Allocatable: first.node.Status.Allocatable},
	})
	k.nodes.add(s)
	k.nodes.makeReady(s)
}
