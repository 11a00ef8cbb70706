package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/term"
	"tenon.sh/deploy"
	"tenon.sh/engine/kube"
)

// TestALeaderThatWasPausedWritesNothingOfWhatItHadPlanned stops the leader of two controllers, as a virtual machine is paused,
// while it starts machines, and lets it go on once the other one has started them. No machine is started for a pod that has one,
// and the pool keeps to its limit. TENON_KILLS says how often; the first time the leader is in the midst of writing NodeClaims, later the
// moment is drawn, others with TENON_KILL_SEED.
func TestALeaderThatWasPausedWritesNothingOfWhatItHadPlanned(t *testing.T) {
	const pods = 36
	w := newWorld(t)
	w.corner = "paused"
	defer func() { w.corner = "" }() // everything is cleared
	// Writes that wait for their turn show best what becomes of them.
	options := []string{"--kube-client-qps=20", "--kube-client-burst=1", "--boot-delay=500ms"}
	leader := w.leader()
	first := w.start(options...)
	leader = w.led(leader)
	pair := []*tenon{first, w.start(options...)}
	w.Cleanup(func() { // one that is paused does not end
		for _, controller := range pair {
			_ = controller.Process.Signal(syscall.SIGCONT)
		}
	})
	w.cornerPool(func(p *v1.NodePool) {
		p.Spec.Limits = v1.Limits{"cpu": resource.MustParse("50")}
		p.Spec.Template.Spec.Requirements[len(p.Spec.Template.Spec.Requirements)-1].Values = []string{"2", "4"}
	})
	claims := w.openLedger()
	seed := killSeed(t)
	for round := range kills(t, 1) {
		d := mixed(w.corner, pods, "900m", nil)
		w.settle(d)
		w.must(w.Create(w, d))
		if round == 0 {
			w.until(time.Minute, func() (bool, string) { return len(w.claims()) > 0, "there is no claim" })
		} else { // the moment of the pause is what this test varies
			time.Sleep(time.Duration(rand.New(rand.NewPCG(seed, uint64(round))).Float64() * 3 * float64(time.Second)))
		}
		w.must(pair[0].Process.Signal(syscall.SIGSTOP))
		began, written := time.Now(), len(w.claims())
		leader = w.led(leader)
		w.running(pods, 2*time.Minute)
		w.until(time.Minute, func() (bool, string) { return time.Since(began) > 2*term.LeaseDuration, "the pause is not over" })
		w.must(pair[0].Process.Signal(syscall.SIGCONT))
		most := 0.0
		w.watchFor(term.RenewDeadline+3*time.Second, func() { most = max(most, w.cpuOfMachines()) }) // so long it went on once
		surplus := w.surplus(claims)
		t.Logf("round %d: paused with %d claims written; machines were started for %d pods more than the %d, %.0f cpu", round+1, written, surplus, pods, most)
		if surplus > 0 || most > 50 {
			t.Errorf("machines were started for %d pods more than there are; the pool of 50 cpu had %.0f", surplus, most)
		}
		w.must(w.Delete(w, d, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		w.until(2*time.Minute, func() (bool, string) { return len(w.pods()) == 0, fmt.Sprintf("%d pods are left", len(w.pods())) }) // before the nodes go, or the pods would get others
		w.must(w.DeleteAllOf(w, &v1.NodeClaim{}))
		w.until(2*time.Minute, func() (bool, string) { return len(w.claims()) == 0, fmt.Sprintf("%d claims are left", len(w.claims())) })
		pair[0], pair[1] = pair[1], pair[0]
	}
}

// leader is whom the Lease names, "" if nobody.
func (w *world) leader() string {
	w.Helper()
	var lease coordinationv1.Lease
	err := w.Get(w, client.ObjectKey{Namespace: deploy.Namespace, Name: "karpenter-leader-election"}, &lease)
	w.must(client.IgnoreNotFound(err))
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// led waits until somebody else than before leads, and says who.
func (w *world) led(before string) (now string) {
	w.Helper()
	w.until(time.Minute, func() (bool, string) {
		now = w.leader()
		return now != "" && now != before, fmt.Sprintf("%q leads", now)
	})
	return now
}

// cpuOfMachines is what the machines of the corner's claims have.
func (w *world) cpuOfMachines() (cpu float64) {
	for _, c := range w.claims() {
		has := c.Status.Capacity["cpu"]
		cpu += has.AsApproximateFloat64()
	}
	return cpu
}

// surplus is for how many pods machines were started beyond those that there are. It is not asked whether one pod was planned for
// twice: kube-scheduler may have given a node to other pods than it was started for before the next leader's plan, and then that
// one is planned for again instead of another. A claim that arrives after the pause is in the ledger as well, and goes without a
// machine.
func (w *world) surplus(claims *ledger) int {
	planned, pods := 0, map[string]bool{}
	for _, p := range w.pods() {
		pods[string(p.UID)] = true
	}
	for _, c := range claims.all(w.TB) {
		for _, uid := range kube.PlannedPods(c) {
			if c.Status.ProviderID != "" && pods[uid] {
				planned++
			}
		}
	}
	return planned - len(pods)
}
