package simulator

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// seat is one node of the world and the pods on it.
type seat struct {
	node    *corev1.Node
	units   []*unit
	used    amounts
	left    time.Time // when a pod was last seen to go
	alive   bool      // its machine runs
	booting bool      // somebody is about to take off its startup taints
	// standIn asks for all that the pods on the node ask for together; nil once that has changed.
	standIn *corev1.Pod
	room    amounts // what pods can use of it in all
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

func (s *seat) sit(u *unit) {
	s.units = append(s.units, u)
	s.used.add(u.need, 1)
	s.standIn = nil
}

func (s *seat) rise(u *unit) {
	s.units = slices.DeleteFunc(s.units, func(o *unit) bool { return o == u })
	s.used.add(u.need, -1)
	s.standIn = nil
}

// pods lists the pods on the node.
func (s *seat) pods() []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(s.units))
	for _, u := range s.units {
		out = append(out, u.pod)
	}
	return out
}

// without is a pod that takes as much room as all on the node but those, nil if that is none.
func (s *seat) without(those amounts) *corev1.Pod {
	if those == nil && s.standIn != nil {
		return s.standIn
	}
	sum := amounts{}
	sum.add(s.used, 1)
	sum.add(those, -1)
	if sum[corev1.ResourcePods] <= 0 {
		return nil
	}
	sum[corev1.ResourcePods]-- // the stand-in is a pod itself
	requests := corev1.ResourceList{}
	for name, amount := range sum {
		if name == corev1.ResourceCPU {
			requests[name] = *resource.NewMilliQuantity(amount, resource.DecimalSI)
		} else {
			requests[name] = *resource.NewQuantity(amount, resource.BinarySI)
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: s.node.Name, UID: types.UID("on/" + s.node.Name)},
		Spec:       corev1.PodSpec{NodeName: s.node.Name, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if those == nil {
		s.standIn = pod
	}
	return pod
}
