package clusterautoscaler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestEachKeepsToItsOwnNodes: a tainted, labelled node group beside an untainted pool. Each autoscaler serves its own pods, and
// Tenon writes no node of the group, whatever becomes of it: it grows, shrinks, and is left in the middle of a removal.
func TestEachKeepsToItsOwnNodes(t *testing.T) {
	w := newWorld(t)
	began := w.audited()
	log := w.startTenon()
	legacy := &group{world: w, name: "legacy", serves: "legacy", labels: map[string]string{"example.com/group": "legacy"}, has: size("4", "16Gi"), most: 4,
		taint: &corev1.Taint{Key: "example.com/group", Value: "legacy", Effect: corev1.TaintEffectNoSchedule}}
	mixed := &group{world: w, name: "mixed", has: size("1", "1Gi"), most: 1, due: 1}
	defer legacy.end()
	defer mixed.end()
	legacy.due = 1
	legacy.boot()
	pool := w.example("nodepool.yaml")
	w.applyAll(pool)
	defer w.removeAll(pool)
	workloads := w.example("workloads.yaml")
	w.applyAll(workloads)
	defer w.removeAll(workloads)
	w.awaitRunning("web", 6, time.Minute)
	w.awaitWaiting("legacy", 4)

	// Nobody of the pool can run them: it is said who may.
	w.wants(w.tenon("explain", "pod", w.waiting("legacy")[0]), "nothing can run it", "example.com/group", "Nodes of group legacy, which no NodePool owns, admit it")
	if served := legacy.look(); len(served) != 4 {
		t.Fatalf("the group grows for %v", served)
	}
	legacy.boot()
	w.awaitRunning("legacy", 6, time.Minute)
	w.onlyOn("legacy", "legacy-")
	w.onlyOn("web", "general-")
	w.wants(w.tenon("nodes"), "legacy-1", "legacy-2", "legacy-3", "general")
	if text := w.tenon("doctor", "--cloud=false", "--all"); strings.Contains(text, "are for the same pods") || strings.Contains(text, "keep off the same pods") {
		t.Error("the doctor finds pools that overlap, and there are none")
	}

	// It shrinks. What it drains comes back where it belongs, and the group's last removal stops in the middle: it crashes.
	w.scale("legacy", 2)
	w.until(time.Minute, func() (bool, string) {
		n := len(w.pods("legacy"))
		return n == 2, fmt.Sprintf("%d pods are left", n)
	})
	w.emptyAndBusy(legacy)
	w.wants(w.tenon("doctor", "--cloud=false"), "Cluster Autoscaler has been removing it since", "kubectl taint node")
	stuck := w.stuck(legacy)
	w.wants(w.tenon("explain", "node", stuck), "which Cluster Autoscaler is removing, since")
	w.wants(w.tenon("nodes"), "leaving")
	w.scale("web", 14)
	w.awaitRunning("web", 14, time.Minute)
	w.onlyOn("web", "general-")

	// It is started again, and takes its taint off: the node is used again.
	legacy.unmark(stuck)
	w.scale("legacy", 4)
	w.awaitRunning("legacy", 4, time.Minute)
	w.onlyOn("legacy", "legacy-")

	// A group without a taint is for the same pods as the pool.
	mixed.boot()
	legacy.mark(stuck, candidateTaint, time.Now())
	w.until(time.Minute, func() (bool, string) {
		text := w.tenon("doctor", "--cloud=false")
		return strings.Contains(text, "NodePool general") && strings.Contains(text, "node group mixed are for the same pods, such as default/web"), text
	})

	w.removeAll(workloads)
	w.until(time.Minute, func() (bool, string) {
		n := len(w.claims("general"))
		return n == 0, fmt.Sprintf("%d machines are left", n)
	})
	w.wants(w.tenon("nodes"), "legacy-1")
	w.untouched(began, "legacy-", "mixed-")
	if lines := w.errorsIn(log); len(lines) > 0 {
		t.Errorf("Tenon has logged %d errors, the first: %s", len(lines), lines[0])
	}
}

// emptyAndBusy has the group remove an empty node, and begin to remove one that runs pods or is empty, an hour ago.
func (w *world) emptyAndBusy(g *group) {
	w.Helper()
	var empty, others []string
	for _, n := range g.nodes() {
		if len(w.podsOf(n.Name)) == 0 {
			empty = append(empty, n.Name)
		} else {
			others = append(others, n.Name)
		}
	}
	names := append(empty, others...)
	g.mark(names[0], candidateTaint, time.Now())
	g.remove(names[0])
	g.mark(names[1], removalTaint, time.Now().Add(-time.Hour))
}

// stuck is the node whose removal does not end.
func (w *world) stuck(g *group) string {
	for _, n := range g.nodes() {
		for _, t := range n.Spec.Taints {
			if t.Key == removalTaint {
				return n.Name
			}
		}
	}
	w.Fatal("no node is being removed")
	return ""
}

func (w *world) podsOf(node string) []corev1.Pod { return (&group{world: w}).podsOn(node) }

// onlyOn fails if a pod of the app runs on a node whose name begins otherwise.
func (w *world) onlyOn(app, prefix string) {
	w.Helper()
	for _, p := range w.pods(app) {
		if p.Spec.NodeName != "" && !strings.HasPrefix(p.Spec.NodeName, prefix) {
			w.Errorf("pod %s runs on %s", p.Name, p.Spec.NodeName)
		}
	}
}

// untouched fails if Tenon's account has written such nodes, or asked for what it may not do.
func (w *world) untouched(since int64, prefixes ...string) {
	w.Helper()
	nodes, refused := w.written(since)
	for name := range nodes {
		for _, prefix := range prefixes {
			if strings.HasPrefix(name, prefix) {
				w.Errorf("Tenon has written node %s", name)
			}
		}
	}
	if len(nodes) == 0 {
		w.Error("the audit log shows no node that Tenon wrote, not even its own")
	}
	if len(refused) > 0 {
		w.Errorf("Tenon asked for what it may not do: %v", refused)
	}
}

// end takes the group's nodes away.
func (g *group) end() {
	for _, n := range g.nodes() {
		g.must(client.IgnoreNotFound(g.Delete(g, &n)))
	}
}
