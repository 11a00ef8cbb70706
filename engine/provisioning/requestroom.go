package provisioning

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
	"tenon.sh/engine/booking"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
)

// demand is a ProvisioningRequest with buffer pods for those of its pods that have no node yet.
type demand struct {
	*booking.Request
	room engine.RequestRoom
	pods []*corev1.Pod
	// on holds the existing machines where pods have a place; the request gets these places if placed is true.
	on     map[*corev1.Pod]*inventory.Machine
	placed bool
}

func (d *demand) wants() bool { return len(d.pods) > 0 }

// demandsOf returns the demands of the snapshot's requests, in the order in which they are served.
func demandsOf(s *engine.Snapshot, made *booking.Pods) (out []*demand) {
	made.Begin()
	for _, r := range booking.Resolve(s) {
		d := &demand{Request: r, room: engine.RequestRoom{Namespace: r.Object.Namespace, Name: r.Object.Name, UID: r.Object.UID}}
		if r.Wants(s.Now) {
			d.pods, d.room.Size = made.Of(r), r.Size
		}
		out = append(out, d)
	}
	return out
}

// WithRequests returns the snapshot in which the pods of ProvisioningRequests run on the nodes with room for them, and these pods. It uses room that
// is held, has been found, or will be complete once starting machines are ready. It returns s itself if there are no requests.
func WithRequests(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache) (next *engine.Snapshot, room Room) {
	if len(s.ProvisioningRequests) == 0 {
		return s, nil
	}
	made := inventory.KeptBy[booking.Pods](cache)
	demands := demandsOf(s, made)
	findRoom(s, opt, cache, demands, false)
	var starting []*demand
	for _, d := range demands {
		if d.wants() && !d.placed && d.Phase == booking.Seeking && d.Buys() {
			starting = append(starting, d)
		}
	}
	next = withBookings(s, demands, made)
	if len(starting) > 0 {
		findRoom(next, opt, cache, starting, true)
		next = withBookings(next, starting, made)
	}
	bound := next.Pods[len(s.Pods):]
	made.Forget(bound)
	return next, roomOf(bound)
}

// findRoom finds places for the demands on existing machines, beside the waiting pods: for all pods of a demand or for none, unless room is held
// already. If coming is true, it also uses starting machines.
func findRoom(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache, demands []*demand, coming bool) {
	next := s
	var more []*corev1.Pod
	for _, d := range demands {
		if !d.wants() {
			continue
		}
		more = append(more, d.pods...)
		if d.Phase == booking.Seeking {
			next = withGroup(next, d)
		}
	}
	if len(more) == 0 {
		return
	}
	next = withPods(next, more)
	pods := cache.Take(next, opt.Threads)
	for round := 1; ; round++ {
		on := placesOn(ReadProblem(next, opt, pods, nil), coming)
		short := false
		for _, d := range demands {
			if !d.wants() || pods.Held(d.pods[0]) {
				continue
			}
			d.on = map[*corev1.Pod]*inventory.Machine{}
			for _, pod := range d.pods {
				if m := on[pod.UID]; m != nil {
					d.on[pod] = m
				}
			}
			d.placed = len(d.on) == len(d.pods) || d.Phase == booking.Booked
			if !d.placed && (!short || round >= mostGangRounds) {
				pods.Hold(d.pods)
				short = true
			}
		}
		if !short {
			return
		}
	}
}

// placesOn returns the machines where buffer pods have a place, by UID: nodes, and starting machines if coming is true.
func placesOn(p *Problem, coming bool) map[types.UID]*inventory.Machine {
	on := map[types.UID]*inventory.Machine{}
	if len(p.Classes) == 0 {
		return on
	}
	p.Model()
	existing := *p.Packing
	existing.Pools, existing.Nodes = nil, slices.Clone(p.Packing.Nodes)
	for i, m := range p.Targets {
		if !coming && !isThere(m) {
			existing.Nodes[i].Free = make(capacity.Vector, p.Names.Len())
		}
	}
	solution := packing.Solve(&existing)
	for i, m := range p.Targets {
		for _, share := range solution.OnNodes[i] {
			for _, n := range share.Pods {
				if pod := p.Classes[share.Class].Pods[n]; kube.IsBufferPod(pod) {
					on[pod.UID] = m
				}
			}
		}
	}
	return on
}

// isThere reports whether pods can run on the machine now.
func isThere(m *inventory.Machine) bool {
	return m.Node != nil && (m.Claim == nil || m.IsInitialized())
}

// withGroup returns the snapshot in which the demand's pods are a PodGroup.
func withGroup(s *engine.Snapshot, d *demand) *engine.Snapshot {
	out := *s
	out.PodGroups = append(slices.Clip(s.PodGroups), d.Group())
	return &out
}

// withBookings returns the snapshot in which the pods of placed demands run on their nodes.
func withBookings(s *engine.Snapshot, demands []*demand, made *booking.Pods) *engine.Snapshot {
	var bound []*corev1.Pod
	for _, d := range demands {
		if !d.placed {
			continue
		}
		for _, pod := range d.pods {
			if m := d.on[pod]; m != nil && m.Node != nil {
				bound = append(bound, made.Bind(pod, m.Name()))
			}
		}
	}
	return withPods(s, bound)
}

// Join returns both rooms together.
func (r Room) Join(other Room) Room {
	if len(r) == 0 {
		return other
	}
	maps.Copy(r, other)
	return r
}

// sumUpRequests takes the buffer pods of requests out of the plan, and adds the result for each request.
func (rd *Reading) sumUpRequests(plan *engine.Plan, demands []*demand, s *engine.Snapshot) {
	of, room, groups := map[types.UID]*demand{}, Room{}, map[string]bool{}
	for _, d := range demands {
		groups[d.GroupName()] = true
		for _, pod := range d.pods {
			of[pod.UID], room[pod.UID] = d, pod
		}
		if d.placed || !d.Buys() {
			d.room.Existing = len(d.on)
		}
	}
	there := map[string]bool{}
	for _, m := range rd.Machines {
		there[m.Name()] = isThere(m)
	}
	plan.Placements = slices.DeleteFunc(plan.Placements, func(x engine.Placement) bool {
		d := of[x.Pod.UID]
		if d != nil && there[x.Node] {
			d.room.Existing++
		} else if d != nil {
			d.room.Coming++
		}
		return d != nil
	})
	for i := range plan.Launches {
		l := &plan.Launches[i]
		for _, pod := range room.TakeOut(l) {
			of[pod.UID].room.Coming++
		}
		l.Gangs = slices.DeleteFunc(l.Gangs, func(name string) bool { return groups[name] })
	}
	plan.Unplaced = slices.DeleteFunc(plan.Unplaced, func(u engine.Unplaced) bool {
		d := of[u.Pod.UID]
		if d != nil && d.room.Reasons == nil {
			d.room.Reasons = u.Reasons
		}
		return d != nil
	})
	plan.Sequence = slices.DeleteFunc(plan.Sequence, room.Has)
	for _, d := range demands {
		d.Conclude(&d.room, s.Now)
		plan.ProvisioningRequests = append(plan.ProvisioningRequests, d.room)
	}
}
