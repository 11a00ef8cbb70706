package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// A plan says where pods could be placed; kube-scheduler decides where they are placed, and its scores spread them. This replay of its default
// filters and of its scores predicts whether pods will land as planned. The scores use the scheduler profiles of the options. The replay has no
// preemption and no extenders, and breaks ties in a fixed order: of free volumes of one size a claim takes the first by name.

// Replay predicts kube-scheduler's bindings: of pods on the nodes of a snapshot, without removed nodes and with planned machines, all ready.
// Machines that are leaving take no part. With On, it replays the present instead.
type Replay struct {
	Snapshot *engine.Snapshot
	Options  engine.Options
	// Launches are machines that join, each with its cheapest listed offering.
	Launches []engine.Launch
	// Removed names nodes, or claims, that are removed with their pods, except the pods in Pods.
	Removed map[string]bool
	// Pods have to land. Pods that run now land anew, after the waiting ones.
	Pods []*corev1.Pod
	// On, if not nil, makes this a replay of the present: On reports whether an existing node takes part, unchanged. Machines without a node
	// take no part, and DaemonSets make no pods.
	On func(node *corev1.Node) bool
	// Nominations maps pods to nodes (or claims, or launches). kube-scheduler tries the nominated node first, and keeps resources there while
	// the pod waits.
	Nominations map[engine.PodID]string

	Cache *inventory.Cache // nil for an empty one
}

// Landing is the result of a replay.
type Landing struct {
	// Placements lists the bound pods in the order of their binding. The node of a planned machine has its launch's name.
	Placements []engine.Placement
	// Used names the launches that got pods, in the order of the launches.
	Used []string
	// Stranded lists the pods without a node, in the order of the queue.
	Stranded []engine.PodID
	// PerHour is the price of all launched machines, used or not, and of further machines for stranded pods.
	PerHour float64
}

// Land runs the replay. The order of the lists does not matter. PerHour covers the launches alone.
func (r *Replay) Land() Landing {
	s, stranded := r.Run()
	return r.Landing(s, stranded)
}

// LandAgain runs the replay like Land, for a caller that keeps a cache between replays.
func (r *Replay) LandAgain(cache *inventory.Cache) Landing {
	again := *r
	again.Cache = cache.Take(r.Snapshot, r.Options.Threads).Cache
	return again.Land()
}

func (r *Replay) Run() (*replayState, []*podInfo) {
	s := newReplayState(r)
	return s, s.run()
}

func (r *Replay) Landing(s *replayState, stranded []*podInfo) Landing {
	out := Landing{Placements: s.placements}
	for i := range r.Launches {
		out.PerHour += r.Launches[i].Price
	}
	for _, n := range s.nodes {
		if n.launch != nil && n.used {
			out.Used = append(out.Used, n.name)
		}
	}
	for _, p := range stranded {
		out.Stranded = append(out.Stranded, kube.PodID(p.pod))
	}
	return out
}
