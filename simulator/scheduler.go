package simulator

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/scheduler"
)

// kubeScheduler finds nodes for the pods that wait, with package scheduler.
type kubeScheduler struct {
	cfg       *Config
	timetable *timetable
	cluster   *cluster
	pods      *pods
	cache     *inventory.Cache
	rounds    int // so far
}

// run runs one round of kube-scheduler over all pods that wait.
func (k *kubeScheduler) run(ctx context.Context) {
	k.timetable.beginRound()
	if len(k.cluster.unbound.list) == 0 {
		return
	}
	if units := k.hopeful(); len(units) > 0 {
		replay := k.replay(ctx, units)
		for _, p := range replay.LandAgain(k.cache).Placements {
			u, _ := k.cluster.units.get(string(p.Pod.UID))
			k.pods.bind(u, k.cluster.seats[p.Node])
		}
	}
	for _, u := range k.cluster.unbound.list {
		k.pods.refuse(u)
	}
}

// hopeful lists the pending pods that some node may take, because most wait for machines that are still starting. Of the pods of one shape, it lists
// only the number that there is room for, the first in kube-scheduler's order.
func (k *kubeScheduler) hopeful() []*unit {
	var out []*unit
	var shapes []*shape
	waiting := map[*shape][]*unit{}
	for _, u := range k.cluster.unbound.list {
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
		for _, s := range k.cluster.seatList {
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
func (k *kubeScheduler) replay(ctx context.Context, units []*unit) scheduler.Replay {
	r := scheduler.Replay{Snapshot: k.cluster.snapshot(ctx), Options: k.cfg.Options, Nominations: map[engine.PodID]string{}}
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
	k.rounds++
	for _, other := range k.cluster.shapes.list {
		if len(other.units.list) == 0 || !slices.ContainsFunc(shapes, func(s *shape) bool { return s.relevant(other) }) {
			continue
		}
		for _, u := range other.units.list {
			if u.seat != nil {
				u.seat.looked = k.rounds
			}
		}
	}
	r.On = func(node *corev1.Node) bool {
		seat := k.cluster.seats[node.Name]
		return !seat.leaving && seat.alive && (seat.looked == k.rounds || seat.matters(shapes))
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
