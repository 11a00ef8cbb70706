package nomination

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
)

const (
	// openingCalm is the time for which the pods must stay unchanged before they are nominated, and again before their nodes open. openingUnrest
	// limits each of the two waits.
	openingCalm, openingUnrest = 300 * time.Millisecond, 8 * time.Second
	// openingsAtOnce is the number of nodes that open at a time. Pods that kube-scheduler tries meanwhile fail, or take spare room, so all nodes
	// should open together. But failed pods must soon get their nominations back.
	openingsAtOnce = 64
	// openingRest is the time without changes of the pods after which the wait for them ends. openingLongest limits the whole wait.
	openingRest, openingLongest = 3 * time.Second, 30 * time.Second
)

// StartupGate determines step by step how nodes open together, so that each pod finds the room that was bought for it.
//
// If a node opens, kube-scheduler tries all waiting pods again. If it finds no node for a pod, the pod loses its nomination, and all pods may
// take its room. So pods are nominated after kube-scheduler has stopped trying them. The gate sees that in the pods' resource versions, because
// kube-scheduler writes each failure on the pod. Then the gate waits until all nominations have come through the watch, and until nothing has
// changed for as long as that took. After that, the nodes open as fast as they can be written. The nodes of the pods that kube-scheduler tries
// first open last. While it fails with these pods, it does not try the others. Pods that lose their nomination get it back.
type StartupGate struct {
	nodes      []Opening
	seats      *assignment
	phase      gatePhase
	began      time.Time     // of the phase
	quietSince time.Time     // the time of the last change
	need       time.Duration // the time for which nothing must change
	written    time.Time     // the time at which the first nominations had been written
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

// PodSight is a pod as the watch shows it.
type PodSight struct {
	Pod *corev1.Pod // nil if it is gone
	// Unseen is true if the watch does not show the pod's nomination yet.
	Unseen bool
}

// GateStep is the next step. The caller writes the nominations, then opens the nodes, and calls Next again a moment later unless Done is true.
type GateStep struct {
	Nominate []engine.Nomination
	Open     []string
	// Opened is true if no node is left to open after this step, Done if nothing is left to do.
	Opened, Done bool
}

// NewStartupGate returns a gate that opens the nodes.
func NewStartupGate(nodes []Opening, now time.Time) *StartupGate {
	o := &StartupGate{nodes: nodes, seats: newAssignment(nodes), began: now, quietSince: now, version: map[types.UID]string{}}
	if len(nodes) > 1 {
		o.need = openingCalm
	}
	return o
}

// Next returns the next step. find returns a pod by its UID.
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

// look finds the pods, and records the time if one has changed.
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
