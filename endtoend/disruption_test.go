package endtoend_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

// TestDisruption runs its cases side by side, each in a corner of one cluster: most of what they do is to wait. What the
// controller decides can be computed again from the files that it records.
func TestDisruption(t *testing.T) {
	w, records := newWorld(t), t.TempDir()
	w.start("--feature-gates=StaticCapacity=true,NodeRepair=true", "--repair-after=5s", "--record-disruptions="+records)
	var group sync.WaitGroup
	for _, c := range []struct {
		corner, rule string
		run          func(*world)
	}{
		{"down", "fewer pods need fewer nodes", scaleDown},
		{"drift", "nodes follow their pool's template within its budget", driftWithinBudget},
		{"soft", "a node near its end is replaced before it goes", softExpiry},
		{"forced", "a node at its end goes whatever its pods say", forcefulExpiry},
		{"broken", "a node that says that it is broken is replaced", repairBroken},
		{"silent", "a node that says nothing any more is replaced", repairSilent},
		{"anyway", "a broken node is replaced whatever protects it", repairAnyway},
		{"blocked", "a drain that a budget blocks says so, and goes on when it may", blockedDrain},
		{"protected", "a protected pod keeps its node as long as it is protected", doNotDisrupt},
		{"period", "a termination grace period ends a drain that a budget blocks", terminationGracePeriod},
		{"window", "a budget's window keeps nodes until it ends", budgetWindow},
		{"halves", "two pods of one Deployment leave a node one after the other", halves},
		{"churn", "pods come and go all the time", churn},
		{"static", "a pool of fixed size keeps its size", staticPool},
	} {
		group.Go(func() { t.Run(c.rule, func(t *testing.T) { c.run(w.in(t, c.corner)) }) })
	}
	group.Wait()
	replayed(t, records)
}

// scaleDown takes 30 of 100 pods away, of each node about as many as of the others: where kube-controller-manager chooses by
// chance, so does chance what the rest can be moved together to.
func scaleDown(w *world) {
	w.pool(w.corner, func(p *v1.NodePool) { p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(5 * time.Second) })
	w.poolReady(w.corner)
	claims := w.openLedger()
	w.deploy("light", 50, "900m", "3100Mi")
	w.deploy("heavy", 50, "3500m", "28Gi")
	w.running(100, 2*time.Minute)
	w.quiet(10*time.Second, 2*time.Minute)
	before, nodes := w.perHour(), len(w.nodes())
	w.leaveEvenly(15, "light", "heavy")
	w.scale("light", 35)
	w.scale("heavy", 35)
	w.running(70, time.Minute)
	light, heavy := w.watchPods("light"), w.watchPods("heavy")
	w.quiet(20*time.Second, 3*time.Minute)
	w.running(70, time.Minute)
	w.whole()
	claims.check(w.TB)
	light.atLeast(w.TB, 17) // half of an owner's pods move in an hour, at most
	heavy.atLeast(w.TB, 17)
	after := w.perHour()
	cpu, memory := utilisation(w)
	w.Logf("%d nodes for $%.3f/h became %d for $%.3f/h, %.1f %% of the cpu and %.1f %% of the memory requested", nodes, before,
		len(w.nodes()), after, cpu*100, memory*100)
	if after > 0.78*before {
		w.Errorf("70 %% of the pods cost %.1f %% of what all did", after/before*100)
	}
}

// leaveEvenly has so many pods of each app leave first when it is scaled down, spread over the nodes in order of what they run.
func (w *world) leaveEvenly(n int, apps ...string) {
	w.Helper()
	runs := map[string]map[string]int{} // by node, by app
	for _, p := range w.pods() {
		if runs[p.Spec.NodeName] == nil {
			runs[p.Spec.NodeName] = map[string]int{}
		}
		runs[p.Spec.NodeName][p.Labels["app"]]++
	}
	key := func(p corev1.Pod) string { return fmt.Sprint(runs[p.Spec.NodeName], p.Spec.NodeName) }
	for _, app := range apps {
		pods := slices.DeleteFunc(w.pods(), func(p corev1.Pod) bool { return p.Labels["app"] != app })
		slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(key(a), key(b)) })
		for i := range n {
			p := &pods[i*len(pods)/n]
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"-1"}}}`, corev1.PodDeletionCost)
			w.must(w.Patch(w, p, client.RawPatch("application/merge-patch+json", patch)))
		}
	}
}

// driftWithinBudget changes the template of five nodes of which two may go at a time.
func driftWithinBudget(w *world) {
	w.cornerPool(func(p *v1.NodePool) { p.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "2"}} })
	w.workload(10, "1900m", nil)
	nodes := len(w.nodes())
	if nodes != 5 {
		w.Fatalf("%d nodes for 10 pods of which two fit each", nodes)
	}
	claims, pods := w.openLedger(), w.watchPods(w.corner)
	w.drift("two")
	w.until(2*time.Minute, func() (bool, string) {
		n := w.drifted("two")
		return n == 0, fmt.Sprintf("%d nodes are still the old ones; the first claim: %+v", n, w.claims()[0].Status.Conditions)
	})
	w.quiet(3*time.Second, time.Minute)
	w.running(10, time.Minute)
	w.whole()
	if n := claims.check(w.TB); n > 2 {
		w.Errorf("%d nodes were on their way out at once, the budget is 2", n)
	}
	pods.atLeast(w.TB, 6)
	if n := len(w.nodes()); n > nodes {
		w.Errorf("%d nodes became %d", nodes, n)
	}
}

// halves scales down the other workload of a large node, so that two pods of one Deployment, without a PodDisruptionBudget, are left there.
// Consolidation moves them to a smaller node, and one of the two has to run at any time.
func halves(w *world) {
	w.cornerPool(func(p *v1.NodePool) {
		p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(time.Second)
		p.Spec.Template.Spec.Requirements[len(p.Spec.Template.Spec.Requirements)-1].Values = []string{"4", "8"}
	})
	w.deploy("burst", 1, "5", "1Gi")
	w.deploy(w.corner, 2, "1", "1Gi")
	w.running(3, 2*time.Minute)
	claim, before := w.only(), w.perHour()
	pods := w.watchPods(w.corner)
	w.scale("burst", 0)
	w.goes(claim, 2*time.Minute)
	w.running(2, time.Minute)
	w.quiet(3*time.Second, time.Minute)
	w.whole()
	pods.atLeast(w.TB, 1)
	if after := w.perHour(); after > 0.6*before {
		w.Errorf("two pods of 1 cpu cost $%.3f/h after $%.3f/h", after, before)
	}
}

// budgetWindow empties a node while a budget's window lets nothing go.
func budgetWindow(w *world) {
	w.cornerPool(func(p *v1.NodePool) { p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(time.Second) })
	w.workload(1, "1", nil)
	now := time.Now().UTC()
	ends := now.Truncate(time.Minute).Add(time.Minute)
	if ends.Sub(now) < 20*time.Second { // too little to see that the node stays
		ends = ends.Add(time.Minute)
	}
	begins := now.Truncate(time.Minute)
	schedule := begins.Format("4 15 2 1 *")
	w.changePool(func(p *v1.NodePool) {
		p.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "0", Schedule: &schedule, Duration: durationOf(ends.Sub(begins))}, {Nodes: "100%"}}
	})
	claims, claim := w.openLedger(), w.only()
	w.scale(w.corner, 0)
	w.event(time.Until(ends), w.corner, "DisruptionBlocked", "No allowed disruptions")
	w.goes(claim, time.Until(ends)+30*time.Second)
	if at := claims.of(claim.UID).DeletionTimestamp; at.Time.Before(ends) {
		w.Errorf("the node went at %v, the window ended at %v", at, ends)
	}
}

// staticPool grows and shrinks a pool of fixed size, and takes one of its machines away.
func staticPool(w *world) {
	two := int64(2)
	w.cornerPool(func(p *v1.NodePool) {
		p.Spec.Replicas = &two
		p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(0)
	})
	w.size(2)
	w.workload(1, "1", nil)
	used := w.pods()[0]
	w.resize(3)
	for _, c := range w.claims() {
		if c.Status.NodeName != used.Spec.NodeName {
			w.must(w.Delete(w, &c))
			w.goes(&c, time.Minute)
			break
		}
	}
	w.size(3)
	w.resize(1)
	if pods := w.pods(); len(pods) != 1 || pods[0].UID != used.UID || w.only().Status.NodeName != used.Spec.NodeName {
		w.Error("the node that was used did not stay")
	}
	w.resize(2)
	w.quiet(12*time.Second, time.Minute) // empty nodes of such a pool stay
	w.size(2)
}

// resize sets the pool's replicas, and waits until it has as many.
func (w *world) resize(n int) {
	w.Helper()
	replicas := int64(n)
	w.changePool(func(p *v1.NodePool) { p.Spec.Replicas = &replicas })
	w.size(n)
}

// size waits until the corner has so many nodes, ready all of them, and as many claims.
func (w *world) size(n int) {
	w.Helper()
	w.until(time.Minute, func() (bool, string) {
		ready, claims := 0, w.claims()
		for _, c := range claims {
			if c.DeletionTimestamp == nil && v1.IsTrue(&c, v1.ConditionInitialized) {
				ready++
			}
		}
		nodes := len(w.nodes())
		return ready == n && len(claims) == n && nodes == n, fmt.Sprintf("%d claims, %d of them ready, %d nodes, want %d", len(claims), ready, nodes, n)
	})
}
