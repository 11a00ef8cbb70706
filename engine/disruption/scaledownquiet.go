package disruption

import (
	"fmt"
	"maps"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

const (
	// A pool is unsettled while pods leave more than one in busyShare of its nodes, and fewBusy at least, within its
	// consolidateAfter, but no less than shortestQuiet and no more than longestQuiet.
	busyShare     = 10
	fewBusy       = 2
	shortestQuiet = 10 * time.Second
	longestQuiet  = time.Minute
	// patience is how many times as long consolidation waits for that to end. Pools that pods leave all the time are
	// consolidated all the same.
	patience = 10
)

// scaledDownLately says why pods of some pools' nodes are not moved yet. Where many pods leave within a minute or two, whatever moves
// before that is over is planned for a cluster that will not be: it would use up what the pods' owners allow to be moved in an
// hour, and the bill would stay high for as long. Pods that are moved leave nodes that go themselves, which do not count.
func (d *planner) scaledDownLately() map[string]engine.Reason {
	nodes, busy := map[string]int{}, map[string]int{}
	for _, m := range d.p.Machines {
		if m.Node == nil || m.Claim == nil || m.Leaving || d.budgets[m.Pool()] == nil {
			continue
		}
		nodes[m.Pool()]++
		a := d.p.Pods.ActivityOn(m.Node.Name)
		if last := m.Claim.Status.LastPodEventTime.Time; last.After(a.Came) { // nobody is there who came then
			a.Left = kube.Latest(a.Left, last)
		}
		if d.s.Now.Sub(a.Left) < scaleDownQuiet(d.budgets[m.Pool()].Rules.Pool) {
			busy[m.Pool()]++
		}
	}
	maps.DeleteFunc(d.passes.ScaledDown, func(name string, _ time.Time) bool { return d.budgets[name] == nil })
	out := map[string]engine.Reason{}
	for name, b := range d.budgets {
		n := busy[name]
		if n < fewBusy || n*busyShare <= nodes[name] {
			delete(d.passes.ScaledDown, name)
			continue
		}
		since, known := d.passes.ScaledDown[name]
		if !known || since.After(d.s.Now) {
			since = d.s.Now.Round(0)
			d.passes.ScaledDown[name] = since
		}
		if end := since.Add(patience * scaleDownQuiet(b.Rules.Pool)); d.s.Now.Before(end) {
			out[name] = engine.Reason{
				Code: engine.Unsettled, NodePool: name, Have: fmt.Sprintf("%d of %s", n, engine.Plural(nodes[name], "node")), Need: end.UTC().Format(time.RFC3339),
			}
		}
	}
	return out
}

// scaleDownQuiet is how long nodes of the pool have to have been left alone by pods to count as quiet.
func scaleDownQuiet(pool *v1.NodePool) time.Duration {
	after := longestQuiet
	if d := pool.Spec.Disruption.ConsolidateAfter.Duration; d != nil {
		after = *d
	}
	return min(max(after, shortestQuiet), longestQuiet)
}
