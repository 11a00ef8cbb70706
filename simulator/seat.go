package simulator

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/kube"
)

// seat is one node of the world and the pods on it.
type seat struct {
	node    *corev1.Node
	units   []*unit
	used    amounts
	left    time.Time // when a pod was last seen to leave
	alive   bool      // its machine runs
	leaving bool      // the node is being removed
	looked  int       // the last round of kube-scheduler in which a pod on it mattered to a pending pod
	booting bool      // its startup taints will be removed soon
	room    amounts   // allocatable
}

// holds returns the number of pods with this need for which the node has room.
func (s *seat) holds(need amounts) int {
	n := int64(math.MaxInt32)
	for i, amount := range need {
		if amount > 0 {
			left := s.room.of(i) - s.used.of(i)
			if left < amount {
				return 0 // most nodes are full, and holds is called for every node and every waiting pod
			}
			n = min(n, left/amount)
		}
	}
	return int(n)
}

// canRun returns how many pods of the shape the node may take, by its room, its taints and the pod's node selector.
func (s *seat) canRun(x *shape) int {
	if !s.alive || s.leaving {
		return 0
	}
	n := s.holds(x.need)
	if n == 0 {
		return 0
	}
	spec := &x.sample.Spec
	for key, value := range spec.NodeSelector {
		if s.node.Labels[key] != value {
			return 0
		}
	}
	if !kube.ToleratesAll(spec.Tolerations, s.node.Spec.Taints) {
		return 0
	}
	return n
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
