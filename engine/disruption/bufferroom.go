package disruption

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// occupants describes the pods and the room (of CapacityBuffers and ProvisioningRequests) that would have to move if the machine were removed.
func (cs *candidates) occupants(m *inventory.Machine) string {
	pods, room := cs.roomOn(m)
	switch {
	case room == "":
		return engine.Plural(pods, "pod")
	case pods == 0:
		return room
	}
	return engine.Plural(pods, "pod") + " and " + room
}

// roomOn describes the room that the machine keeps ("" if there is none), and returns the number of its other pods that would move.
func (cs *candidates) roomOn(m *inventory.Machine) (pods int, room string) {
	kept, first := 0, ""
	for _, pod := range cs.moving(m) {
		if isPod(pod) {
			pods++
			continue
		}
		kept++
		if name := kube.RoomOf(pod); first == "" || name < first {
			first = name
		}
	}
	if kept > 0 {
		room = fmt.Sprintf("the room for %s that %s keeps", engine.Plural(kept, "pod"), first)
	}
	return pods, room
}

// besideRoom returns the words about room that follow "for its pods" in a reason, because kept room needs a place as pods do.
func (cs *candidates) besideRoom(m *inventory.Machine) string {
	if len(cs.room) == 0 {
		return ""
	}
	if _, room := cs.roomOn(m); room != "" {
		return " and " + room
	}
	return " beside the room that is kept elsewhere"
}

// keepsOnlyRoom reports whether buffer pods, and no others, would have to move if the machine were removed.
func (cs *candidates) keepsOnlyRoom(m *inventory.Machine) bool {
	moving := cs.moving(m)
	return len(moving) > 0 && !slices.ContainsFunc(moving, isPod)
}

// isPod reports whether the pod is not a buffer pod.
func isPod(pod *corev1.Pod) bool { return !kube.IsBufferPod(pod) }

// roomOnly returns the reason for a machine that is kept only because of the room on it.
func (cs *candidates) roomOnly(m *inventory.Machine) engine.Reason {
	if !cs.keepsOnlyRoom(m) {
		return engine.Reason{}
	}
	return engine.Reason{Code: engine.NotEmpty, NodePool: m.Pool(), Have: cs.occupants(m)}
}

// takeOutRoom removes buffer pods from the plan, because nothing has to move them and no reason may name them.
func (d *planner) takeOutRoom() {
	if len(d.room) == 0 {
		return
	}
	for i := range d.plan.Disruptions {
		x := &d.plan.Disruptions[i]
		x.Pods, x.Held = slices.DeleteFunc(x.Pods, d.room.Has), slices.DeleteFunc(x.Held, d.room.Has)
		x.Moves = slices.DeleteFunc(x.Moves, func(m engine.Placement) bool { return d.room.Has(m.Pod) })
		for j := range x.Replacements {
			d.room.TakeOut(&x.Replacements[j])
		}
	}
	names := make(map[string]string, len(d.room))
	for _, pod := range d.room {
		names[kube.PodID(pod).String()] = "of the room of " + kube.RoomOf(pod)
	}
	for i := range d.plan.Kept {
		r := &d.plan.Kept[i].Reason
		name := names[strings.TrimPrefix(r.Key, "pod ")]
		switch {
		case name != "" && r.Code == engine.DoNotDisrupt: // booked room is never moved from its node
			*r = engine.Reason{Code: engine.NotEmpty, NodePool: r.NodePool, Have: strings.TrimPrefix(name, "of ")}
		case name != "":
			r.Key = name
		}
	}
}
