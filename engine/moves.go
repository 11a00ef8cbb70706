package engine

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ownerMoves keeps count of how many pods of each owner consolidation may move: half of them an hour, rounded up. What was
// moved in the last hour shows in the pods themselves: those that replaced others are younger than that, and younger than
// their owner.
type ownerMoves struct {
	left map[string]int
}

const (
	moveHour = time.Hour
	// firstPods is how long after their owner the first pods of it may come.
	firstPods = 10 * time.Minute
)

// ownerFacts is what a pass counts of an owner.
type ownerFacts struct {
	name         string
	pass         uint64 // the last call that counted
	seen         uint64 // the last call that saw a pod of it
	count, moved int
	since        time.Time // when it was made; where that is not known, when its first pod was
	took         []time.Duration
}

// readMoves counts the pods of all owners.
func (c *consolidation) readMoves() *ownerMoves {
	pods := c.p.census
	m := &ownerMoves{left: map[string]int{}}
	var owners []*ownerFacts
	recent := false
	for _, f := range pods.all {
		o := f.owner
		if o == nil {
			continue
		}
		at := f.pod.CreationTimestamp.Time
		if o.pass != pods.memo.pass {
			*o = ownerFacts{name: o.name, pass: pods.memo.pass, seen: o.seen, since: at, took: o.took[:0]}
			owners = append(owners, o)
		}
		if at.Before(o.since) {
			o.since = at
		}
		if isActive(f.pod) {
			o.count++
			recent = recent || c.s.Now.Sub(at) < moveHour
		}
	}
	if recent {
		c.countMoved()
	}
	for _, o := range owners {
		m.left[o.name] = max(0, (o.count+1)/2-o.moved)
	}
	return m
}

// countMoved counts the pods that replaced others within the last hour.
func (c *consolidation) countMoved() {
	pods := c.p.census
	since := func(kind string, o metav1.Object) {
		if owner := pods.memo.owned[o.GetNamespace()+"/"+kind+"/"+o.GetName()]; owner != nil {
			owner.since = o.GetCreationTimestamp().Time
		}
	}
	for _, r := range c.s.ReplicaSets {
		since("ReplicaSet", r)
	}
	for _, r := range c.s.StatefulSets {
		since("StatefulSet", r)
	}
	for _, r := range c.s.ReplicationControllers {
		since("ReplicationController", r)
	}
	for _, f := range pods.all {
		if f.owner == nil || !isActive(f.pod) {
			continue
		}
		if at := f.pod.CreationTimestamp.Time; c.s.Now.Sub(at) < moveHour && at.Sub(f.owner.since) > firstPods {
			f.owner.moved++
		}
	}
}

// ownersOf counts the pods of each owner that a part moves.
func (c *consolidation) ownersOf(p part) map[string]int {
	out := map[string]int{}
	for _, h := range p.hosts {
		for _, pod := range c.moving(h) {
			if owner := c.memo.ownerOf(pod); owner != "" {
				out[owner]++
			}
		}
	}
	return out
}

// allow says whether so many pods of each owner may move now.
func (m *ownerMoves) allow(owners map[string]int) Reason {
	worst := ""
	for owner, n := range owners {
		if n > m.left[owner] && (worst == "" || owner < worst) {
			worst = owner
		}
	}
	if worst == "" {
		return Reason{}
	}
	return Reason{Code: OwnerMoved, Key: worst, Need: plural(owners[worst], "pod"), Have: plural(m.left[worst], "pod")}
}

func (m *ownerMoves) use(owners map[string]int) {
	for owner, n := range owners {
		m.left[owner] -= n
	}
}
