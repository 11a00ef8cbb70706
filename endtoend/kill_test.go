package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// kills is how often controllers are killed by each test that does so: TENON_KILLS, or a few times.
func kills(t *testing.T, few int) int {
	t.Helper()
	text := os.Getenv("TENON_KILLS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("TENON_KILLS: %v", err)
	}
	return n
}

// killSeed stands for the moments at which controllers are killed: TENON_KILL_SEED, or always the same ones.
func killSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("TENON_KILL_SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("TENON_KILL_SEED: %v", err)
	}
	return n
}

// TestControllersThatAreKilledWhileNodesGoLoseNothing lets the nodes of a pool drift, and the cluster shrink and grow, in
// turn. At a moment that is drawn, within the time that takes, the controller is killed with SIGKILL and another one started.
// TENON_KILLS says how often, TENON_KILL_SEED begins with other moments.
func TestControllersThatAreKilledWhileNodesGoLoseNothing(t *testing.T) {
	rounds, seed := kills(t, 4), killSeed(t)
	w := newWorld(t)
	w.corner = "killed"
	defer func() { w.corner = "" }() // everything is cleared
	// With an election the next controller would wait until the killed one's lease is over.
	options := []string{"--disable-leader-election", "--boot-delay=500ms"}
	controller := w.start(options...)
	w.cornerPool(func(p *v1.NodePool) { p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(time.Second) })
	w.workload(36, "900m", nil)
	claims := w.openLedger()
	replicas, generation := 36, ""
	for i := range rounds {
		after := time.Duration(rand.New(rand.NewPCG(seed, uint64(i))).Float64() * 7 * float64(time.Second))
		what := "after the template changed"
		if i%2 == 0 {
			replicas = 60 - replicas
			what = fmt.Sprintf("after %d pods became %d", 60-replicas, replicas)
			w.scale(w.corner, int32(replicas))
		} else {
			generation = fmt.Sprint(i)
			w.drift(generation)
		}
		time.Sleep(after) // the moment of the kill is what this test varies
		controller.end(syscall.SIGKILL)
		controller = w.start(options...)
		began := time.Now()
		w.recovers(replicas, generation)
		claims.check(t)
		w.whole()
		cpu, _ := utilisation(w)
		t.Logf("seed %d, kill %d: %v %s; quiet %v later: %d pods on %d nodes, %.1f %% of the cpu requested", seed, i+1,
			after.Round(time.Millisecond), what, time.Since(began).Round(time.Second), replicas, len(w.nodes()), cpu*100)
		if t.Failed() {
			t.FailNow()
		}
	}
}

// recovers waits until everything that was begun is done: all pods run, no node is of an older template, and nothing moves any
// more.
func (w *world) recovers(replicas int, generation string) {
	w.Helper()
	w.until(2*time.Minute, func() (bool, string) {
		n := w.drifted(generation)
		return n == 0, fmt.Sprintf("%d of %d nodes are of an older template", n, len(w.claims()))
	})
	w.running(replicas, 2*time.Minute)
	w.quiet(5*time.Second, 2*time.Minute)
	for _, p := range w.pods() {
		if p.Status.Phase != corev1.PodRunning {
			w.Errorf("pod %s is %s", p.Name, p.Status.Phase)
		}
	}
}
