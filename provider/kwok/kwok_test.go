package kwok_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/kwok"
	"tenon.sh/provider/simulated"
)

func TestANodeLooksLikeOneThatItsKubeletRegistered(t *testing.T) {
	w := newWorld(t, 0)
	claim := w.newClaim(t, "general-x1", []v1.Requirement{
		{Key: corev1.LabelInstanceTypeStable, Operator: v1.In, Values: []string{"m-4x-arm64-linux", "c-4x-arm64-linux"}},
		{Key: v1.CapacityTypeLabelKey, Operator: v1.In, Values: []string{"on-demand"}},
		{Key: "example.com/tier", Operator: v1.In, Values: []string{"gold"}},
	}, corev1.ResourceList{})
	m := w.launch(t, claim)
	w.tick(t)
	node := w.node(t, "general-x1")
	wantLabels := map[string]string{
		"team": "a", "karpenter.sh/nodepool": "general", "example.com/tier": "gold",
		"node.kubernetes.io/instance-type": "c-4x-arm64-linux", "topology.kubernetes.io/zone": "test-zone-a",
		"karpenter.sh/capacity-type": "on-demand", "kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux",
		"karpenter.kwok.sh/instance-size": "4", "karpenter.kwok.sh/instance-family": "c",
		"karpenter.kwok.sh/instance-cpu": "4", "karpenter.kwok.sh/instance-memory": "8Gi",
		"eks-node-viewer/instance-price": "0.108590", "kwok-partition": "a", "kwok.x-k8s.io/node": "fake",
		"kubernetes.io/hostname": "general-x1", "beta.kubernetes.io/arch": "arm64", "beta.kubernetes.io/os": "linux",
	}
	if !maps.Equal(node.Labels, wantLabels) {
		t.Errorf("labels\n%v\nwant\n%v", node.Labels, wantLabels)
	}
	if node.Annotations["kwok.x-k8s.io/node"] != "fake" || node.Annotations["note"] != "b" {
		t.Errorf("annotations %v", node.Annotations)
	}
	if node.Spec.ProviderID != "kwok://general-x1" || string(m.ID) != node.Spec.ProviderID {
		t.Errorf("provider ID %s, machine %s", node.Spec.ProviderID, m.ID)
	}
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].ToString() != "karpenter.sh/unregistered:NoExecute" {
		t.Errorf("taints %v", node.Spec.Taints)
	}
	if node.Status.Capacity.Cpu().String() != "4" || node.Status.Allocatable.Cpu().String() != "3900m" || node.Status.Capacity.Pods().String() != "64" {
		t.Errorf("status %+v", node.Status)
	}
}

func TestANodeAppearsWhenItsMachineHasBooted(t *testing.T) {
	w := newWorld(t, 30*time.Second)
	slow := w.class()
	slow.Object.(*kwokv1alpha1.KWOKNodeClass).Spec.NodeRegistrationDelay = &metav1.Duration{Duration: time.Minute}
	w.launch(t, w.newClaim(t, "a", nil, nil))
	if _, err := w.provider.Launch(t.Context(), w.newClaim(t, "b", nil, nil), slow); err != nil {
		t.Fatal(err)
	}
	begin := w.clock.Now()
	for _, step := range []struct {
		after time.Duration
		nodes []string
		next  time.Duration
	}{{0, nil, 30}, {29, nil, 30}, {30, []string{"a"}, 90}, {89, []string{"a"}, 90}, {90, []string{"a", "b"}, 0}} {
		w.clock.SetTime(begin.Add(step.after * time.Second))
		next := w.tick(t)
		if got := w.nodeNames(t); !slices.Equal(got, step.nodes) {
			t.Errorf("after %d s: nodes %v, want %v", step.after, got, step.nodes)
		}
		if want := begin.Add(step.next * time.Second); step.next != 0 && !next.Equal(want) || step.next == 0 && !next.IsZero() {
			t.Errorf("after %d s: next %v, want %d s", step.after, next, step.next)
		}
	}
}

func TestALaunchIsCancelledWhenItsClaimGoes(t *testing.T) {
	w := newWorld(t, 30*time.Second)
	claim := w.newClaim(t, "a", nil, nil)
	m := w.launch(t, claim)
	w.delete(t, claim)
	w.pass(t, time.Minute)
	w.tick(t)
	if got := w.nodeNames(t); got != nil {
		t.Errorf("nodes %v", got)
	}
	if _, err := w.provider.Machine(t.Context(), m.ID); !errors.Is(err, provider.ErrGone) {
		t.Errorf("machine: %v, want ErrGone", err)
	}
}

func TestAMachineToldToStopBeforeItBootedGetsNoNode(t *testing.T) {
	w := newWorld(t, 30*time.Second)
	m := w.launch(t, w.newClaim(t, "a", nil, nil))
	w.terminate(t, m.ID)
	w.pass(t, time.Minute)
	w.tick(t)
	if got := w.nodeNames(t); got != nil {
		t.Errorf("nodes %v", got)
	}
}

func TestTheNodeOfAMachineThatIsGoneIsDeleted(t *testing.T) {
	for _, how := range []string{"terminated", "died"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t, 0)
			m := w.launch(t, w.newClaim(t, "a", nil, nil))
			w.launch(t, w.newClaim(t, "b", nil, nil))
			w.tick(t)
			if how == "terminated" {
				w.terminate(t, m.ID)
			} else if err := w.cloud.Inject(simulated.Fault{What: simulated.FaultKill, Selector: simulated.Selector{Machine: "a"}}); err != nil {
				t.Fatal(err)
			}
			w.tick(t)
			if got := w.nodeNames(t); !slices.Equal(got, []string{"b"}) {
				t.Errorf("nodes %v, want b", got)
			}
		})
	}
}

// finalized starts a machine whose node has a finalizer.
func (w *world) finalized(t *testing.T, name string) (engine.Machine, *corev1.Node) {
	t.Helper()
	m := w.launch(t, w.newClaim(t, name, nil, nil))
	w.tick(t)
	node := w.node(t, name)
	node.Finalizers = []string{v1.TerminationFinalizer}
	if err := w.client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	return m, node
}

func TestAFinalizerOnANodeIsRespected(t *testing.T) {
	w := newWorld(t, 0)
	m, _ := w.finalized(t, "a")
	w.terminate(t, m.ID)
	w.tick(t)
	if node := w.node(t, "a"); node.DeletionTimestamp.IsZero() {
		t.Error("the node of a machine that is gone is not being deleted")
	}
}

func TestANodeThatIsBeingDeletedIsNotDeletedAgain(t *testing.T) {
	w := newWorld(t, 0)
	m, node := w.finalized(t, "a")
	if err := w.client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.terminate(t, m.ID)
	w.broken = errors.New("nothing needs to be written")
	if err := w.provider.Terminate(t.Context(), m.ID); !errors.Is(err, provider.ErrGone) {
		t.Errorf("terminate: %v, want ErrGone", err)
	}
	w.tick(t)
}

func TestTheNameOfAClaimCanBeUsedAgain(t *testing.T) {
	w := newWorld(t, 0)
	first := w.newClaim(t, "a", nil, nil)
	m := w.launch(t, first)
	w.tick(t)
	w.delete(t, first)
	w.pass(t, time.Second)
	second := w.newClaim(t, "a", nil, nil)
	if _, err := w.provider.Launch(t.Context(), second, w.class()); err == nil {
		t.Error("a second machine of the same name was started beside the first")
	}
	w.terminate(t, m.ID)
	w.tick(t)
	w.launch(t, second)
	w.tick(t)
	if got := w.node(t, "a").Annotations[kwok.ClaimUIDAnnotationKey]; got != string(second.UID) {
		t.Errorf("the node belongs to claim %s, want %s", got, second.UID)
	}
}

func TestSomebodyElsesNodeIsLeftAlone(t *testing.T) {
	w := newWorld(t, 0)
	if err := w.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NodeSpec{ProviderID: "kind://a"}}); err != nil {
		t.Fatal(err)
	}
	m := w.launch(t, w.newClaim(t, "a", nil, nil))
	if _, err := w.provider.Tick(t.Context()); err == nil {
		t.Error("no error about a node of the same name")
	}
	w.terminate(t, m.ID)
	w.tick(t)
	if got := w.node(t, "a").Spec.ProviderID; got != "kind://a" {
		t.Errorf("provider ID %s", got)
	}
}

func TestAnAPIServerThatFailsIsTriedAgain(t *testing.T) {
	w := newWorld(t, 0)
	m := w.launch(t, w.newClaim(t, "a", nil, nil))
	w.broken = apierrors.NewInternalError(errors.New("etcd is away"))
	if _, err := w.provider.Tick(t.Context()); err == nil {
		t.Fatal("no error")
	}
	w.broken = nil
	w.tick(t)
	w.node(t, "a")
	w.terminate(t, m.ID)
	w.broken = apierrors.NewInternalError(errors.New("etcd is away"))
	if _, err := w.provider.Tick(t.Context()); err == nil {
		t.Fatal("no error")
	}
	w.broken = nil
	w.tick(t)
	if got := w.nodeNames(t); got != nil {
		t.Errorf("nodes %v", got)
	}
}

func TestANodeWhoseCreationGotNoAnswerIsFoundAgain(t *testing.T) {
	w := newWorld(t, 0)
	m := w.launch(t, w.newClaim(t, "a", nil, nil))
	w.lost = apierrors.NewTimeoutError("no answer", 1)
	if _, err := w.provider.Tick(t.Context()); err == nil {
		t.Fatal("no error")
	}
	w.lost = nil
	w.tick(t)
	w.terminate(t, m.ID)
	w.tick(t)
	if got := w.nodeNames(t); got != nil {
		t.Errorf("nodes %v", got)
	}
}

// The life of a claim, with a crash before any one of its steps. There is one machine, and none after the claim's end.
func TestACrashAtAnyPointLeaksAndDoublesNothing(t *testing.T) {
	steps := []func(t *testing.T, w *world, claim *v1.NodeClaim){
		func(t *testing.T, w *world, claim *v1.NodeClaim) { w.launch(t, claim) },
		writeStatus,
		func(t *testing.T, w *world, _ *v1.NodeClaim) { w.pass(t, 20*time.Second); w.tick(t) },
		func(t *testing.T, w *world, _ *v1.NodeClaim) { w.pass(t, 20*time.Second); w.tick(t) },
		func(t *testing.T, w *world, claim *v1.NodeClaim) { checkRunning(t, w, claim) },
		func(t *testing.T, w *world, claim *v1.NodeClaim) { end(t, w, claim) },
		func(t *testing.T, w *world, _ *v1.NodeClaim) { w.tick(t) },
	}
	for crash := range len(steps) + 1 {
		t.Run(fmt.Sprintf("before step %d", crash), func(t *testing.T) {
			w := newWorld(t, 30*time.Second)
			claim := w.newClaim(t, "a", nil, nil)
			for i, step := range steps {
				if i == crash {
					w.restart(t)
					if i >= 1 && i < 5 { // the controllers see a claim without status, or without Node, again
						if i == 1 {
							w.launch(t, claim)
						}
						w.tick(t)
					}
				}
				step(t, w, claim)
			}
			if crash == len(steps) {
				w.restart(t)
			}
			w.tick(t)
			if got := w.nodeNames(t); got != nil {
				t.Errorf("nodes %v are left", got)
			}
			if list, err := w.provider.Machines(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("machines %v, %v are left", list, err)
			}
		})
	}
}

func TestWhatRanBeforeARestartIsTheSameMachineAfterwards(t *testing.T) {
	w := newWorld(t, 30*time.Second)
	booted := w.newClaim(t, "booted", nil, nil)
	before := w.launch(t, booted)
	writeStatus(t, w, booted)
	w.pass(t, 31*time.Second)
	w.tick(t)
	booting := w.newClaim(t, "booting", nil, nil)
	w.launch(t, booting)
	writeStatus(t, w, booting)
	w.restart(t)
	for _, claim := range []*v1.NodeClaim{booted, booting} {
		m, err := w.provider.Machine(t.Context(), engine.MachineID(kwok.IDPrefix+claim.Name))
		if err != nil {
			t.Fatal(err)
		}
		if m.Claim != claim.Name || m.ClaimUID != string(claim.UID) || !maps.Equal(m.Labels, before.Labels) || m.Capacity.Cpu().Cmp(*before.Capacity.Cpu()) != 0 {
			t.Errorf("machine\n%+v\nwas\n%+v", m, before)
		}
	}
	if again := w.launch(t, booting); again.ID != "kwok://booting" {
		t.Errorf("launched again: %s", again.ID)
	}
	if next := w.tick(t); !next.Equal(w.clock.Now().Add(30 * time.Second)) {
		t.Errorf("the second node is due at %v, want in 30 s", next)
	}
	if got := w.nodeNames(t); !slices.Equal(got, []string{"booted"}) {
		t.Errorf("nodes %v", got)
	}
}

// Here a Node is its machine. A new process finds nothing of a Node that was deleted by hand.
func TestAMachineWhoseNodeWasTakenAwayIsGoneAfterARestart(t *testing.T) {
	w := newWorld(t, 30*time.Second)
	claim := w.newClaim(t, "lost", nil, nil)
	writeStatus(t, w, claim)
	claim.Status.NodeName = "lost" // it was registered, and says so no more
	if err := w.client.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.restart(t)
	if m, err := w.provider.Machine(t.Context(), kwok.IDPrefix+"lost"); !errors.Is(err, provider.ErrGone) {
		t.Errorf("machine %+v, error %v", m, err)
	}
}

func TestAMachineThatNeverBecomesReadyIsNotPlayed(t *testing.T) {
	w := newWorld(t, 0)
	cloud, err := simulated.NewCloud(simulated.Config{Clock: w.clock, Catalog: w.cloud.Catalog(), IDPrefix: kwok.IDPrefix, Profile: simulated.Profile{NeverReady: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if w.provider, err = kwok.New(kwok.Config{Client: w.client, Clock: w.clock, Cloud: cloud}); err != nil {
		t.Fatal(err)
	}
	w.launch(t, w.newClaim(t, "a", nil, nil))
	w.tick(t)
	node := w.node(t, "a")
	if node.Labels["kwok-partition"] != "" || node.Annotations["kwok.x-k8s.io/node"] != "" {
		t.Errorf("KWOK would play it: %v %v", node.Labels, node.Annotations)
	}
}

func TestTheRunnerWakesWhenAMachineHasBooted(t *testing.T) {
	w := newWorld(t, 30*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	created := make(chan string, 1)
	w.created = created
	stopped := make(chan error)
	go func() { stopped <- w.provider.Start(ctx) }()
	w.launch(t, w.newClaim(t, "a", nil, nil))
	w.asleep(t)
	w.pass(t, 31*time.Second)
	if name := <-created; name != "a" {
		t.Errorf("node %s", name)
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Errorf("start: %v", err)
	}
}

// A policy may forbid the creation of Nodes for a reason, and the log must remain readable.
func TestTroubleIsSaidOnceAndTriedAgainLessAndLessOften(t *testing.T) {
	w := newWorld(t, 0)
	var mu sync.Mutex
	var lines []string
	logger := funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}, funcr.Options{})
	said := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(lines)
	}
	w.broken = apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "a", errors.New("no more of them"))
	w.launch(t, w.newClaim(t, "a", nil, nil))
	created := make(chan string, 2)
	w.created = created
	ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), logger))
	stopped := make(chan error)
	go func() { stopped <- w.provider.Start(ctx) }()
	for range 5 * 60 {
		w.asleep(t)
		w.clock.Step(time.Second)
	}
	w.asleep(t)
	before := w.refused.Load()
	w.launch(t, w.newClaim(t, "b", nil, nil)) // it is tried immediately, and is nothing new
	w.until(t, "the new machine was tried", func() bool { return w.refused.Load() > before })
	w.asleep(t)
	if got := said(); len(got) != 1 || w.refused.Load() > 20 {
		t.Errorf("in five minutes it was tried %d times and %d lines were said:\n%s", w.refused.Load(), len(got), strings.Join(got, "\n"))
	}
	w.broken = nil
	w.clock.Step(time.Minute)
	<-created
	<-created
	w.until(t, "the end of the trouble was said", func() bool { return len(said()) > 1 })
	cancel()
	if err := <-stopped; err != nil {
		t.Errorf("start: %v", err)
	}
	if got := said(); len(got) != 2 || !strings.Contains(got[1], "again") {
		t.Errorf("the end of the trouble was not said once:\n%s", strings.Join(got, "\n"))
	}
}

// asleep waits until the runner waits for the clock.
func (w *world) asleep(t *testing.T) {
	t.Helper()
	w.until(t, "the runner slept", w.clock.HasWaiters)
}

// until waits until the function `is` returns true, because the runner works in the background.
func (w *world) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !is(); runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatalf("within a minute it did not happen that %s", what)
		}
	}
}

func TestAMachineThatBootsWhileAnotherIsShownIsNotForgotten(t *testing.T) {
	w := newWorld(t, 30*time.Second)
	w.launch(t, w.newClaim(t, "a", nil, nil))
	w.clock.Step(10 * time.Second)
	w.launch(t, w.newClaim(t, "b", nil, nil))
	w.clock.Step(25 * time.Second) // a has booted, b boots in 5 s
	w.slow = 15 * time.Second
	next, err := w.provider.Tick(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if next.IsZero() || next.After(w.clock.Now()) {
		t.Errorf("the next call is due at %v, though b booted before %v", next, w.clock.Now())
	}
}

// writeStatus stores a launch like the controllers.
func writeStatus(t *testing.T, w *world, claim *v1.NodeClaim) {
	t.Helper()
	m := w.launch(t, claim)
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	labels := maps.Clone(m.Labels)
	maps.Copy(labels, claim.Labels)
	claim.Labels = labels
	if err := w.client.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	claim.Status.ProviderID, claim.Status.Capacity, claim.Status.Allocatable = string(m.ID), m.Capacity, m.Allocatable
	v1.SetCondition(claim, v1.ConditionLaunched, metav1.ConditionTrue, "", "", w.clock.Now())
	if err := w.client.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
}

func checkRunning(t *testing.T, w *world, claim *v1.NodeClaim) {
	t.Helper()
	if got := w.nodeNames(t); !slices.Equal(got, []string{"a"}) {
		t.Errorf("nodes %v, want one", got)
	}
	list, err := w.provider.Machines(t.Context())
	if err != nil || len(list) != 1 || list[0].ClaimUID != string(claim.UID) || list[0].ID != "kwok://a" {
		t.Errorf("machines %v, %v; want one", list, err)
	}
}

// end stops the machine until it is gone, and then removes the claim.
func end(t *testing.T, w *world, claim *v1.NodeClaim) {
	t.Helper()
	for range 3 {
		if err := w.provider.Terminate(t.Context(), "kwok://a"); errors.Is(err, provider.ErrGone) {
			w.delete(t, claim)
			return
		}
	}
	t.Error("the machine does not go")
}

func (w *world) launch(t *testing.T, claim *v1.NodeClaim) engine.Machine {
	t.Helper()
	m, err := w.provider.Launch(t.Context(), claim, w.class())
	if err != nil {
		t.Fatalf("launch: %v", err)
	}
	return m
}

func (w *world) terminate(t *testing.T, id engine.MachineID) {
	t.Helper()
	if err := w.provider.Terminate(t.Context(), id); err != nil {
		t.Fatalf("terminate: %v", err)
	}
}

func (w *world) delete(t *testing.T, claim *v1.NodeClaim) {
	t.Helper()
	if err := w.client.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
}

func (w *world) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	return node
}

func (w *world) nodeNames(t *testing.T) []string {
	t.Helper()
	list := &corev1.NodeList{}
	if err := w.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range list.Items {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// An unready node is broken, whether its kubelet reports it or is silent, after the configured time; its pods get no more time. If a user
// sets a condition by hand, the machine is replaced soon, and its pods get some time.
func TestANodeThatIsNotReadyForLongIsBroken(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{0: 10 * time.Minute, time.Minute: time.Minute} {
		w := newWorld(t, 0)
		p, err := kwok.New(kwok.Config{Client: w.client, Clock: w.clock, Cloud: w.cloud, RepairAfter: asked})
		if err != nil {
			t.Fatal(err)
		}
		type times struct{ toleration, grace time.Duration }
		got := map[string]times{}
		for _, r := range p.Repairs() {
			got[r.Condition+" "+r.Status] = times{r.Toleration, r.Grace}
		}
		if !maps.Equal(got, map[string]times{
			"Ready False": {want, 0}, "Ready Unknown": {want, 0},
			"KWOKUnhealthy True": {30 * time.Second, 45 * time.Second}, "KWOKRebootRequired True": {30 * time.Second, time.Minute},
		}) {
			t.Errorf("asked for %v: %v", asked, got)
		}
	}
}
