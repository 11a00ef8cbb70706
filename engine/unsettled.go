package engine

import (
	"fmt"
	"maps"
	"time"

	v1 "tenon.sh/api/v1"
)

const (
	// A pool is unsettled while pods leave more than one in busyShare of its nodes, and fewBusy at least, within its
	// consolidateAfter, but no less than shortestCalm and no more than longestCalm.
	busyShare    = 10
	fewBusy      = 2
	shortestCalm = 10 * time.Second
	longestCalm  = time.Minute
	// patience is how many times as long consolidation waits for that to end. Pools that pods leave all the time are
	// consolidated all the same.
	patience = 10
)

// unsettled says why pods of some pools' nodes are not moved yet. Where many pods leave within a minute or two, whatever moves
// before that is over is planned for a cluster that will not be: it would use up what the pods' owners allow to be moved in an
// hour, and the bill would stay high for as long. Pods that are moved leave nodes that go themselves, which do not count.
func (d *disruptor) unsettled() map[string]Reason {
	if d.last.unsettled == nil {
		d.last.unsettled = map[string]time.Time{}
	}
	nodes, busy := map[string]int{}, map[string]int{}
	for _, h := range d.p.hosts {
		if h.node == nil || h.claim == nil || h.leaving || d.budgets[h.pool()] == nil {
			continue
		}
		nodes[h.pool()]++
		a := d.p.census.activityOn(h.node.Name)
		if last := h.claim.Status.LastPodEventTime.Time; last.After(a.came) { // nobody is there who came then
			a.left = latest(a.left, last)
		}
		if d.s.Now.Sub(a.left) < calmOf(d.budgets[h.pool()].rules.pool) {
			busy[h.pool()]++
		}
	}
	maps.DeleteFunc(d.last.unsettled, func(name string, _ time.Time) bool { return d.budgets[name] == nil })
	out := map[string]Reason{}
	for name, b := range d.budgets {
		n := busy[name]
		if n < fewBusy || n*busyShare <= nodes[name] {
			delete(d.last.unsettled, name)
			continue
		}
		since, known := d.last.unsettled[name]
		if !known || since.After(d.s.Now) {
			since = d.s.Now
			d.last.unsettled[name] = since
		}
		if end := since.Add(patience * calmOf(b.rules.pool)); d.s.Now.Before(end) {
			out[name] = Reason{
				Code: Unsettled, NodePool: name, Have: fmt.Sprintf("%d of %s", n, plural(nodes[name], "node")), Need: end.UTC().Format(time.RFC3339),
			}
		}
	}
	return out
}

// calmOf is how long nodes of the pool have to have been left alone by pods to count as calm.
func calmOf(pool *v1.NodePool) time.Duration {
	after := longestCalm
	if d := pool.Spec.Disruption.ConsolidateAfter.Duration; d != nil {
		after = *d
	}
	return min(max(after, shortestCalm), longestCalm)
}
