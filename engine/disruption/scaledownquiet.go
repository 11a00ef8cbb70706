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
	// A pool is unsettled if pods have left more than one in busyShare of its nodes, and at least fewBusy nodes, within its consolidateAfter. For
	// this, consolidateAfter is raised to at least shortestQuiet and cut to at most longestQuiet.
	busyShare     = 10
	fewBusy       = 2
	shortestQuiet = 10 * time.Second
	longestQuiet  = time.Minute
	// patience is the multiple of that time for which consolidation waits for the pool to settle. Then it consolidates the pool even if pods still
	// leave.
	patience = 10
)

// scaledDownLately returns, for each unsettled pool, why pods on its nodes do not move yet. If many pods leave within a minute or two, a move during
// that time is planned for a cluster that will change. Early moves would use up the moves that the pods' owners have in an hour, and the bill would
// stay high for that time. Moved pods are ignored, because the nodes that they leave are removed too.
func (cs *candidates) scaledDownLately() map[string]engine.Reason {
	nodes, busy := map[string]int{}, map[string]int{}
	for _, m := range cs.p.Machines {
		if m.Node == nil || m.Claim == nil || m.Leaving || cs.budgets[m.Pool()] == nil {
			continue
		}
		nodes[m.Pool()]++
		a := cs.p.Pods.ActivityOn(m.Node.Name)
		if last := m.Claim.Status.LastPodEventTime.Time; last.After(a.Came) { // the pod that came at that time has left, because no pod here came so late
			a.Left = kube.Latest(a.Left, last)
		}
		if cs.s.Now.Sub(a.Left) < scaleDownQuiet(cs.budgets[m.Pool()].Rules.Pool) {
			busy[m.Pool()]++
		}
	}
	maps.DeleteFunc(cs.passes.ScaledDown, func(name string, _ time.Time) bool { return cs.budgets[name] == nil })
	out := map[string]engine.Reason{}
	for name, b := range cs.budgets {
		n := busy[name]
		if n < fewBusy || n*busyShare <= nodes[name] {
			delete(cs.passes.ScaledDown, name)
			continue
		}
		since, known := cs.passes.ScaledDown[name]
		if !known || since.After(cs.s.Now) {
			since = cs.s.Now.Round(0)
			cs.passes.ScaledDown[name] = since
		}
		if end := since.Add(patience * scaleDownQuiet(b.Rules.Pool)); cs.s.Now.Before(end) {
			out[name] = engine.Reason{
				Code: engine.Unsettled, NodePool: name, Have: fmt.Sprintf("%d of %s", n, engine.Plural(nodes[name], "node")), Need: end.UTC().Format(time.RFC3339),
			}
		}
	}
	return out
}

// scaleDownQuiet returns the time after which a node of the pool is quiet, if no pod has left the node since.
func scaleDownQuiet(pool *v1.NodePool) time.Duration {
	after := longestQuiet
	if d := pool.Spec.Disruption.ConsolidateAfter.Duration; d != nil {
		after = *d
	}
	return min(max(after, shortestQuiet), longestQuiet)
}
