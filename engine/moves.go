package engine

import (
	"time"
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

func (c *consolidation) readMoves() *ownerMoves {
	count, moved := map[string]int{}, map[string]int{}
	since := c.ownersSince()
	for _, f := range c.p.census.all {
		pod, owner := f.pod, f.owner
		if owner == "" || !isActive(pod) {
			continue
		}
		count[owner]++
		if at := pod.CreationTimestamp.Time; c.s.Now.Sub(at) < moveHour && at.Sub(since[owner]) > firstPods {
			moved[owner]++
		}
	}
	m := &ownerMoves{left: map[string]int{}}
	for owner, n := range count {
		m.left[owner] = max(0, (n+1)/2-moved[owner])
	}
	return m
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

// ownersSince is when each owner was made; where that is not known, when its first pod was.
func (c *consolidation) ownersSince() map[string]time.Time {
	since := map[string]time.Time{}
	for _, f := range c.p.census.all {
		pod, owner := f.pod, f.owner
		if at := pod.CreationTimestamp.Time; since[owner].IsZero() || at.Before(since[owner]) {
			since[owner] = at
		}
	}
	for _, r := range c.s.ReplicaSets {
		since[r.Namespace+"/ReplicaSet/"+r.Name] = r.CreationTimestamp.Time
	}
	for _, r := range c.s.StatefulSets {
		since[r.Namespace+"/StatefulSet/"+r.Name] = r.CreationTimestamp.Time
	}
	for _, r := range c.s.ReplicationControllers {
		since[r.Namespace+"/ReplicationController/"+r.Name] = r.CreationTimestamp.Time
	}
	return since
}
