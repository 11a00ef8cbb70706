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

// occupants says what would have to move if the machine went: its pods, and the room of CapacityBuffers and ProvisioningRequests.
func (d *planner) occupants(m *inventory.Machine) string {
	pods, room := d.roomOn(m)
	switch {
	case room == "":
		return engine.Plural(pods, "pod")
	case pods == 0:
		return room
	}
	return engine.Plural(pods, "pod") + " and " + room
}

// roomOn says what room is kept on the machine, nothing if there is none, and counts the pods beside.
func (d *planner) roomOn(m *inventory.Machine) (pods int, room string) {
	kept, first := 0, ""
	for _, pod := range d.moving(m) {
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

// besideRoom continues "for its pods" of a machine: room has to have a place as well.
func (d *planner) besideRoom(m *inventory.Machine) string {
	if len(d.room) == 0 {
		return ""
	}
	if _, room := d.roomOn(m); room != "" {
		return " and " + room
	}
	return " beside the room that is kept elsewhere"
}

// keepsOnlyRoom reports whether room would have to move if the machine went, and nothing else.
func (d *planner) keepsOnlyRoom(m *inventory.Machine) bool {
	moving := d.moving(m)
	return len(moving) > 0 && !slices.ContainsFunc(moving, isPod)
}

// isPod reports whether the pod is one, and stands for no room.
func isPod(pod *corev1.Pod) bool { return !kube.IsBufferPod(pod) }

// roomOnly is the reason of a machine that nobody has pods on and that stays for the room that is kept there.
func (d *planner) roomOnly(m *inventory.Machine) engine.Reason {
	if !d.keepsOnlyRoom(m) {
		return engine.Reason{}
	}
	return engine.Reason{Code: engine.NotEmpty, NodePool: m.Pool(), Have: d.occupants(m)}
}

// takeOutRoom takes the pods that stand for room out of the plan: nobody has to move them, and no reason names them.
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
		case name != "" && r.Code == engine.DoNotDisrupt: // what is booked stays where it is
			*r = engine.Reason{Code: engine.NotEmpty, NodePool: r.NodePool, Have: strings.TrimPrefix(name, "of ")}
		case name != "":
			r.Key = name
		}
	}
}
