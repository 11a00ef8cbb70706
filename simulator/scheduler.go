package simulator

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/scheduler"
)

// schedule runs one round of kube-scheduler over all pods that wait.
func (w *World) schedule(ctx context.Context) {
	w.timetable.beginRound()
	if len(w.cluster.unbound.list) == 0 {
		return
	}
	if units := w.hopeful(); len(units) > 0 {
		replay := w.replay(ctx, units)
		for _, p := range replay.LandAgain(&w.cache).Placements {
			u, _ := w.cluster.units.get(string(p.Pod.UID))
			w.pods.bind(u, w.cluster.seats[p.Node])
		}
	}
	for _, u := range w.cluster.unbound.list {
		w.pods.refuse(u)
	}
}

// hopeful lists the pending pods that some node may take, because most wait for machines that are still starting. Of the pods of one shape, it lists
// only the number that there is room for, the first in kube-scheduler's order.
func (w *World) hopeful() []*unit {
	var out []*unit
	var shapes []*shape
	waiting := map[*shape][]*unit{}
	for _, u := range w.cluster.unbound.list {
		if u.pod.Status.NominatedNodeName != "" { // a nominated pod keeps room that others could use
			out = append(out, u)
			continue
		}
		if waiting[u.shape] == nil {
			shapes = append(shapes, u.shape)
		}
		waiting[u.shape] = append(waiting[u.shape], u)
	}
	for _, x := range shapes {
		units, room := waiting[x], 0
		for _, s := range w.cluster.seatList {
			if room += s.canRun(x); room >= len(units) {
				break
			}
		}
		if room < len(units) && (room == 0 || !x.volumes) { // pods with volumes may each have another node
			slices.SortFunc(units, func(a, b *unit) int {
				return cmp.Or(a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time), cmp.Compare(a.number, b.number))
			})
			units = units[:room]
		}
		out = append(out, units...)
	}
	return out
}

// replay returns the input of kube-scheduler for the pods, without the nodes that have no room and that matter to none of them.
func (w *World) replay(ctx context.Context, units []*unit) scheduler.Replay {
	r := scheduler.Replay{Snapshot: w.cluster.snapshot(ctx), Options: w.cfg.Options, Nominations: map[engine.PodID]string{}}
	var shapes []*shape
	for _, u := range units {
		r.Pods = append(r.Pods, u.pod)
		if !slices.Contains(shapes, u.shape) {
			shapes = append(shapes, u.shape)
		}
		if name := u.pod.Status.NominatedNodeName; name != "" {
			r.Nominations[engine.PodID{Namespace: u.pod.Namespace, Name: u.pod.Name, UID: u.pod.UID}] = name
		}
	}
	// A full node matters if a pod on it is relevant to one of the pending pods.
	w.rounds++
	for _, other := range w.cluster.shapes.list {
		if len(other.units.list) == 0 || !slices.ContainsFunc(shapes, func(s *shape) bool { return s.relevant(other) }) {
			continue
		}
		for _, u := range other.units.list {
			if u.seat != nil {
				u.seat.looked = w.rounds
			}
		}
	}
	r.On = func(node *corev1.Node) bool {
		seat := w.cluster.seats[node.Name]
		return !seat.leaving && seat.alive && (seat.looked == w.rounds || seat.matters(shapes))
	}
	return r
}

// matters reports whether a node can matter to pods of these shapes: it has room for one of them, or one of them has a strict spread,
// which counts all nodes.
func (s *seat) matters(shapes []*shape) bool {
	return slices.ContainsFunc(shapes, func(x *shape) bool { return x.strict || s.holds(x.need) > 0 })
}

// isOpen reports whether the node can take ordinary pods: it is not deleted, and has no ephemeral taints.
func isOpen(node *corev1.Node) bool {
	return node.DeletionTimestamp == nil && !slices.ContainsFunc(node.Spec.Taints, kube.IsEphemeralTaint)
}
