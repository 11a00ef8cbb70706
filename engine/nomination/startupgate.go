package nomination

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
)

const (
	// openingCalm is for how long kube-scheduler has to leave the pods alone before they are nominated, and again before
	// their nodes open. openingUnrest ends either wait.
	openingCalm, openingUnrest = 300 * time.Millisecond, 8 * time.Second
	// openingsAtOnce is how many nodes open at a time. Pods that are tried meanwhile fail, or go where room is left over, so
	// that all should open in one go; but those that fail have to get their nominations back before long.
	openingsAtOnce = 64
	// openingRest ends the wait for pods to which nothing has happened for so long, openingLongest the wait for all of them.
	openingRest, openingLongest = 3 * time.Second, 30 * time.Second
)

// StartupGate says step by step how nodes open together, so that every pod finds the room that was bought for it.
//
// Whenever a node opens, kube-scheduler tries all waiting pods again. A pod that it finds no node for loses its nomination,
// and its room is open to all. So pods are nominated when kube-scheduler has stopped trying them, which their versions tell:
// it writes down each time that it finds no node. When all nominations have come through the watch, and nothing has happened
// for as long as that took, the nodes open as fast as they can be written; last those whose pods it will try first. While it
// fails with these, it leaves the others alone. Pods that lose their nomination get it back.
type StartupGate struct {
	nodes      []Opening
	seats      *assignment
	phase      gatePhase
	began      time.Time     // of the phase
	quietSince time.Time     // since when nothing has happened
	need       time.Duration // for how long that has to be so
	written    time.Time     // when the first nominations had been written
	heard      bool          // they all have come through the watch
	version    map[types.UID]string
	closed     []string // nodes that are to open
}

type gatePhase int

const (
	openerSettles gatePhase = iota
	openerNominates
	openerOpens
)

// PodSight is a pod as far as is known.
type PodSight struct {
	Pod *corev1.Pod // nil if it is gone
	// Unseen says that the watch does not show yet how the pod was nominated.
	Unseen bool
}

// GateStep is what to do now, in this order: write the nominations, open the nodes, look again a moment later unless
// all is done.
type GateStep struct {
	Nominate []engine.Nomination
	Open     []string
	// Opened says that no node is left to open after this step, Done that nothing is left to do.
	Opened, Done bool
}

// NewStartupGate begins to open nodes.
func NewStartupGate(nodes []Opening, now time.Time) *StartupGate {
	o := &StartupGate{nodes: nodes, seats: newAssignment(nodes), began: now, quietSince: now, version: map[types.UID]string{}}
	if len(nodes) > 1 {
		o.need = openingCalm
	}
	return o
}

// Next says what to do now. It finds pods by their UIDs.
func (o *StartupGate) Next(now time.Time, find func(types.UID) PodSight) GateStep {
	pods, unseen := o.look(now, find)
	switch {
	case o.phase == openerSettles && !o.settled(now):
		return GateStep{}
	case o.phase == openerSettles:
		o.seats.distribute(pods)
		o.phase, o.began, o.quietSince = openerNominates, now, now
	case o.written.IsZero():
		o.written, o.began = now, now
	}
	if !o.written.IsZero() && !o.heard && !unseen && len(o.nodes) > 1 {
		o.need, o.heard = max(o.need, now.Sub(o.written)), true
	}
	nominations, waiting := o.seats.nominate(pods)
	if len(nominations) > 0 {
		o.quietSince = now
	}
	if o.phase == openerNominates && (waiting == 0 || o.settled(now)) {
		o.phase, o.closed, o.began = openerOpens, o.seats.order(o.nodes), now
	}
	if o.phase != openerOpens {
		return GateStep{Nominate: nominations}
	}
	next := o.closed[:min(openingsAtOnce, len(o.closed))]
	if o.closed = o.closed[len(next):]; len(next) > 0 {
		o.quietSince = now
	}
	for _, node := range next {
		o.seats.open[node] = true
	}
	opened := len(o.closed) == 0
	done := opened && (waiting == 0 || now.Sub(o.quietSince) > openingRest || now.Sub(o.began) > openingLongest)
	return GateStep{nominations, next, opened, done}
}

// look finds the pods, and notices whether anything has happened to them.
func (o *StartupGate) look(now time.Time, find func(types.UID) PodSight) (pods map[types.UID]*corev1.Pod, unseen bool) {
	pods = map[types.UID]*corev1.Pod{}
	for _, n := range o.nodes {
		for _, planned := range n.Pods {
			sight := find(planned.UID)
			version := ""
			if sight.Pod != nil {
				pods[planned.UID] = sight.Pod
				version = sight.Pod.ResourceVersion
			}
			if old, known := o.version[planned.UID]; known && old != version || sight.Unseen {
				o.quietSince = now
			}
			o.version[planned.UID] = version
			unseen = unseen || sight.Unseen
		}
	}
	return pods, unseen
}

func (o *StartupGate) settled(now time.Time) bool {
	return now.Sub(o.quietSince) >= o.need || now.Sub(o.began) >= openingUnrest
}
