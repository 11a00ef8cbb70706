package simulator

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
)

// seat is one node of the world and the pods on it.
type seat struct {
	node    *corev1.Node
	units   []*unit
	used    amounts
	left    time.Time // when a pod was last seen to go
	alive   bool      // its machine runs
	booting bool      // somebody is about to take off its startup taints
	room    amounts   // what pods can use of it in all
}

func newSeat(node *corev1.Node) *seat {
	return &seat{node: node, used: amounts{}, alive: true, room: amountsIn(node.Status.Allocatable)}
}

// holds reports whether there is room for so much more.
func (s *seat) holds(need amounts) bool {
	for name, amount := range need {
		if amount > 0 && s.used[name]+amount > s.room[name] {
			return false
		}
	}
	return true
}

// canRun reports whether the node may take a pod of the shape, as far as its room, its taints and the pod's node selector tell.
func (s *seat) canRun(x *shape) bool {
	if !s.alive || s.node.DeletionTimestamp != nil || !s.holds(x.need) {
		return false
	}
	spec := &x.sample.Spec
	for key, value := range spec.NodeSelector {
		if s.node.Labels[key] != value {
			return false
		}
	}
	return engine.ToleratesAll(spec.Tolerations, s.node.Spec.Taints)
}

func (s *seat) sit(u *unit) {
	s.units = append(s.units, u)
	s.used.add(u.need, 1)
}

func (s *seat) rise(u *unit) {
	s.units = slices.DeleteFunc(s.units, func(o *unit) bool { return o == u })
	s.used.add(u.need, -1)
}

// pods lists the pods on the node.
func (s *seat) pods() []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(s.units))
	for _, u := range s.units {
		out = append(out, u.pod)
	}
	return out
}
