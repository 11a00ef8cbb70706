package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// A plan says where pods could go; kube-scheduler decides where they do go, and its scores spread them. This replay of
// its default filters and scores tells beforehand whether pods will land as planned, and what it costs if they do not.
// It knows no preemption, no extenders and no other profiles, and breaks ties in a fixed order: of free volumes of one size a
// claim takes the first by name.

// Replay is a what-if, unless On is set: pods that wait for kube-scheduler, on the nodes of a snapshot less those that go and with the
// machines that are planned, all of them ready. Machines that are leaving take no part.
type Replay struct {
	Snapshot *engine.Snapshot
	Options  engine.Options
	// Launches are machines that join, each as its cheapest listed offering.
	Launches []engine.Launch
	// Removed are the names of nodes, or of claims, that go; their pods go with them, save those of Pods.
	Removed map[string]bool
	// Pods have to land. Those that run now do so anew, after those that wait.
	Pods []*corev1.Pod
	// On, if not nil, makes this a replay of now instead of what will be: it says whether a node that is there takes part, as it is.
	// Machines that have no node take none, and no DaemonSet makes pods.
	On func(node *corev1.Node) bool
	// Nominations name the nodes (or claims, or launches) that pods are nominated to: kube-scheduler tries these first, and
	// keeps room there as long as the pod waits.
	Nominations map[engine.PodID]string

	Cache *inventory.Cache // nil for an empty one
}

// Landing is where kube-scheduler's default scores would put pods.
type Landing struct {
	// Placements lists the pods that found a node, in the order in which they were bound. The node of a planned machine
	// is its launch's name.
	Placements []engine.Placement
	// Used names the launches that got pods, in the order of the launches.
	Used []string
	// Stranded lists the pods that no node took, in the order of the queue.
	Stranded []engine.PodID
	// PerHour is the price of all launched machines, used or not, and of those that stranded pods would need besides.
	PerHour float64
}

// Land replays. The order of the lists does not matter. PerHour is that of the launches alone.
func (r *Replay) Land() Landing {
	s, stranded := r.Run()
	return r.Landing(s, stranded)
}

// LandAgain is Land for a caller that keeps a cache from replay to replay.
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
