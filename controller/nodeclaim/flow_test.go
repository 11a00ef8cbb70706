package nodeclaim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/provider"
	"tenon.sh/provider/kwok"
)

func TestClaimBecomesAnInitializedNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	claim, node := w.claims()[0], w.nodes()[0]
	if claim.Status.NodeName != node.Name || node.Labels[v1.InitializedLabelKey] != "true" || node.Labels[v1.RegisteredLabelKey] != "true" {
		t.Errorf("claim %+v, node labels %v", claim.Status, node.Labels)
	}
	if claim.Labels[corev1.LabelInstanceTypeStable] == "" || claim.Labels["karpenter.kwok.sh/kwoknodeclass"] != "default" {
		t.Errorf("claim labels %v", claim.Labels)
	}
	if !slices.Equal(w.outcomes, []bool{true}) {
		t.Errorf("outcomes %v", w.outcomes)
	}
	before := w.writes
	for range 5 {
		w.pass(10 * time.Second)
	}
	if w.writes != before {
		t.Errorf("%d writes although nothing happens", w.writes-before)
	}
}

func TestALifeCostsFewWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	birth := w.writes
	w.create(newPod("a", w.nodes()[0].Name))
	w.pass(time.Second)
	running := w.writes
	w.remove(w.claims()[0])
	w.until("gone", w.empty)
	if birth > 6 || running-birth > 1 || w.writes-running > 9 {
		t.Errorf("%d writes to start, %d for a pod, %d to remove", birth, running-birth, w.writes-running)
	}
}

// The write of the claim that comes with the deletion wakes the claim before the watch shows the deletion.
func TestANodeIsDeletedOnceThoughTheCacheIsBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	w.remove(w.claims()[0])
	w.behind = true
	w.round()
	writes := w.writes
	for range 3 {
		w.round()
	}
	if w.writes != writes {
		t.Errorf("%d writes while the cache is behind", w.writes-writes)
	}
	w.clock.Step(time.Second)
	w.round()
	if w.writes == writes {
		t.Error("what the cache never shows is not tried again")
	}
	w.behind = false
	w.until("gone", w.empty)
}

func TestForeignClaimsAreIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("other-1", func(c *v1.NodeClaim) {
		c.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "x"}
	}))
	w.pass(time.Hour)
	w.pass(time.Hour)
	if w.writes != 0 || w.provider.launches != 0 {
		t.Errorf("%d writes, %d launches", w.writes, w.provider.launches)
	}
}

// TestClaimsOfAnOlderVersionGetTheLabelOfTheirClass takes over a claim and its node that have run for long.
func TestClaimsOfAnOlderVersionGetTheLabelOfTheirClass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	labelled := func() bool {
		const label = "karpenter.kwok.sh/kwoknodeclass"
		return w.claims()[0].Labels[label] == "default" && w.nodes()[0].Labels[label] == "default"
	}
	if !labelled() {
		t.Fatalf("a new claim and its node have no label:\n%v\n%v", w.claims()[0].Labels, w.nodes()[0].Labels)
	}
	for _, o := range []client.Object{w.claims()[0], w.nodes()[0]} {
		w.update(o, func() {
			labels := o.GetLabels()
			delete(labels, "karpenter.kwok.sh/kwoknodeclass")
			o.SetLabels(labels)
		})
	}
	w.clock.Step(24 * time.Hour)
	w.restart()
	w.until("labelled", labelled)
	if w.provider.launches != 0 || !w.initialized() {
		t.Errorf("%d launches, initialized: %v", w.provider.launches, w.initialized())
	}
}

func TestDeletedClaimDrainsBeforeTheMachineStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	node := w.nodes()[0].Name
	w.create(newPod("a", node))
	w.create(newPod("b", "", func(p *corev1.Pod) { p.Status.NominatedNodeName = node }))
	w.remove(w.claims()[0])
	w.until("gone", w.empty)
	pods := w.pods()
	if len(pods) != 1 || pods[0].Name != "b" || pods[0].Status.NominatedNodeName != "" {
		t.Errorf("pods %v: want a evicted, and b nominated to nothing", pods)
	}
	if !w.events.has("Evicted") {
		t.Error("no event tells of the eviction")
	}
}

// Who reads that a node goes and that it is drained reads the same number: of the pods that need another node.
func TestADrainSaysHowManyPodsHaveToMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	node := w.nodes()[0].Name
	w.create(newPod("runs", node))
	w.create(newPod("over", node, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
	w.create(newPod("daemon", node, func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: ptr.To(true)}}
	}))
	w.remove(w.claims()[0])
	w.until("gone", w.empty)
	said := slices.DeleteFunc(slices.Clone(w.lines), func(line string) bool { return !strings.Contains(line, "draining node") })
	if len(said) != 1 || !strings.Contains(said[0], `"pods"=1`) {
		t.Errorf("one of three pods has to move, and the log says %q", said)
	}
}

// Without the right to write pods' status a whole life passes all the same: kube-scheduler is left alone with the field.
func TestWithNominationsOffNoStatusOfAPodIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1", func(c *v1.NodeClaim) {
		c.Annotations = map[string]string{kube.PlannedPodsAnnotation: "uid-a"}
	}), newPod("a", "", unschedulable))
	w.reconciler.Options.NoNominations = true
	held := false
	w.until("initialized", func() bool {
		for _, n := range w.nodes() {
			held = held || slices.Contains(n.Spec.Taints, kube.OpeningTaint())
		}
		return w.initialized()
	})
	node := w.nodes()[0].Name
	w.create(newPod("b", "", func(p *corev1.Pod) { p.Status.NominatedNodeName = node }))
	w.remove(w.claims()[0])
	w.until("gone", w.empty)
	got := map[string]string{}
	for _, p := range w.pods() {
		got[p.Name] = p.Status.NominatedNodeName
	}
	if want := map[string]string{"a": "", "b": node}; held || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("nominations %v, want %v; the node was held closed: %v", got, want, held)
	}
}

func TestALifeIsCountedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	w.create(newPod("a", w.nodes()[0].Name))
	w.remove(w.claims()[0])
	w.until("gone", w.empty)
	w.pass(time.Minute)
	for _, name := range []string{
		"karpenter_nodes_created_total", "karpenter_nodes_drained_total", "karpenter_nodes_terminated_total", "karpenter_nodeclaims_terminated_total",
		"karpenter_nodes_termination_duration_seconds", "karpenter_nodes_lifetime_duration_seconds",
		"karpenter_pods_eviction_requests_total", "karpenter_pods_drained_total",
		"karpenter_nodeclaims_termination_duration_seconds", "karpenter_nodeclaims_instance_termination_duration_seconds",
	} {
		if n := w.counted(name); n != 1 {
			t.Errorf("%s has counted %v", name, n)
		}
	}
}

func TestDrainedPodsAreCountedByWhyTheirNodeGoes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, disrupted, want string }{
		{"for a reason", "SpotInterruption", "SpotInterruption"}, {"deleted by somebody", "", "Forceful Termination"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, newClaim("general-1"))
			w.until("initialized", w.initialized)
			w.create(newPod("a", w.nodes()[0].Name))
			claim := w.claims()[0]
			w.update(claim, func() {
				if tt.disrupted != "" {
					v1.SetCondition(claim, v1.ConditionDisruptionReason, metav1.ConditionTrue, tt.disrupted, "", w.clock.Now())
				}
			})
			w.remove(claim)
			w.until("gone", w.empty)
			drained := w.metrics("karpenter_pods_drained_total")
			if len(drained) != 1 || drained[0].GetLabel()[0].GetValue() != tt.want || drained[0].GetCounter().GetValue() != 1 {
				t.Errorf("drained pods are counted as %v, want one for %s", drained, tt.want)
			}
		})
	}
}

// Neither the eviction of a pod nor its deletion at the end of its node's grace period meets a later pod of its name.
func TestAPodIsNotSentAwayForAnotherOfTheSameName(t *testing.T) {
	t.Parallel()
	timeUp := func(c *v1.NodeClaim) {
		c.Annotations = map[string]string{v1.NodeClaimTerminationTimestampAnnotationKey: "2030-01-01T00:00:00Z"}
	}
	protected := func(p *corev1.Pod) { p.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: "true"} }
	for _, tt := range []struct {
		name  string
		claim func(*v1.NodeClaim)
		pod   func(*corev1.Pod)
	}{{"asked to go", func(*v1.NodeClaim) {}, func(*corev1.Pod) {}}, {"forced to go", timeUp, protected}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, newClaim("general-1", tt.claim))
			w.until("initialized", w.initialized)
			pod := newPod("a", w.nodes()[0].Name, tt.pod)
			w.create(pod)
			w.overtake = func() {
				w.overtake = nil
				w.remove(pod)
				w.create(newPod("a", "elsewhere", func(p *corev1.Pod) { p.UID = "uid-second" }))
			}
			w.remove(w.claims()[0])
			w.until("gone", w.empty)
			if w.overtake != nil {
				t.Error("nothing was sent away")
			}
			if pods := w.pods(); len(pods) != 1 || pods[0].UID != "uid-second" || pods[0].DeletionTimestamp != nil {
				t.Errorf("pods %v: want the second one of that name", pods)
			}
		})
	}
}

// An eviction that is cut off may have been charged to the pod's budget without the pod being deleted.
func TestAnEvictionThatWasAskedForIsNotCutOffByTheProcessEnding(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	w.create(newPod("a", w.nodes()[0].Name))
	w.overtake = func() { w.stop() }
	w.remove(w.claims()[0])
	w.round()
	w.round()
	if pods := w.pods(); len(pods) > 0 {
		t.Errorf("pod %s was not evicted", pods[0].Name)
	}
}

func TestPodBoundAfterTheTaintIsStillSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	w.remove(w.claims()[0])
	w.round()                                   // tainted and deleted
	w.create(newPod("late", w.nodes()[0].Name)) // the scheduler had not seen it
	w.until("gone", w.empty)
	if len(w.pods()) != 0 {
		t.Error("the pod was not evicted")
	}
}

func TestDeletedNodeTakesItsClaimAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	w.create(newPod("a", w.nodes()[0].Name))
	w.remove(w.nodes()[0])
	w.until("gone", w.empty)
	if len(w.pods()) != 0 {
		t.Error("the pod was not evicted")
	}
}

func TestNodeWithoutClaimIsDrainedAndItsMachineStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	claim := w.claims()[0]
	w.update(claim, func() { claim.Finalizers = nil })
	w.remove(claim)
	w.create(newPod("a", w.nodes()[0].Name))
	w.clock.Step(time.Minute)
	if err := w.reconciler.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(w.provider.terminated) != 0 {
		t.Error("the machine was stopped under its pod")
	}
	w.until("gone", w.empty)
	if len(w.pods()) != 0 {
		t.Error("the pod was not evicted")
	}
}

func TestMachineWithoutClaimIsStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.crashAt, w.lost = 3, false // after the finalizer: launched, but not written down
	if !w.until("crash", w.initialized) || len(w.machines()) != 1 {
		t.Fatalf("no crash, or %d machines", len(w.machines()))
	}
	w.restart()
	claim := w.claims()[0]
	w.update(claim, func() { claim.Finalizers = nil })
	w.remove(claim)
	w.clock.Step(20 * time.Second)
	if err := w.reconciler.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(w.machines()) != 1 {
		t.Error("a young machine was stopped")
	}
	w.clock.Step(20 * time.Second)
	if err := w.reconciler.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(w.machines()) != 0 {
		t.Error("the machine that nobody owns still runs")
	}
}

// A machine that nobody lived to write down may have a node that pods run on already, if that came without the unregistered taint: they
// leave before it stops.
func TestAMachineThatIsNotWrittenDownIsDrainedBeforeItStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.nodesStay, w.crashAt = true, 3 // after the finalizer: launched, but not written down
	if !w.until("crash", w.initialized) || len(w.machines()) != 1 {
		t.Fatalf("no crash, or %d machines", len(w.machines()))
	}
	w.restart()
	id := string(w.machines()[0].ID)
	node := strings.TrimPrefix(id, kwok.IDPrefix)
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "node"}, Spec: corev1.NodeSpec{ProviderID: id}})
	w.create(newPod("a", node))
	w.remove(w.claims()[0])
	w.until("gone", func() bool { return w.empty() && len(w.machines()) == 0 })
	if !w.events.has("Evicted") {
		t.Error("no event tells of the eviction")
	}
}

func TestClaimWhoseMachineDiedIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	if err := w.cloud.Terminate(w.machines()[0].ID); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(time.Minute)
	node := w.nodes()[0]
	if err := w.reconciler.Collect(t.Context()); err != nil || w.claims()[0].DeletionTimestamp != nil {
		t.Fatalf("a claim whose node is Ready was removed, error %v", err)
	}
	w.update(node, func() { node.Status.Conditions[0].Status = corev1.ConditionUnknown })
	w.create(newPod("a", node.Name))
	if err := w.reconciler.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.until("gone", w.empty)
}

func TestNothingIsCollectedWhenTheCloudDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	node := w.nodes()[0]
	w.update(node, func() { node.Status.Conditions[0].Status = corev1.ConditionUnknown })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.reconciler.Collect(ctx); err == nil {
		t.Error("no error")
	}
	if w.claims()[0].DeletionTimestamp != nil {
		t.Error("the claim was removed")
	}
}

func TestLaunchThatCannotSucceed(t *testing.T) {
	t.Parallel()
	offering := engine.OfferingID{InstanceType: "c-1x-amd64-linux", Zone: "test-zone-a", CapacityType: "spot"}
	tests := []struct {
		name  string
		err   error
		event string
	}{
		{"sold out", &provider.SoldOutError{Offerings: []engine.OfferingID{offering}, Cause: "none left"}, "InsufficientCapacityError"},
		{"class not ready", &provider.ClassNotReadyError{Class: "default", Problem: "no image"}, ""},
		{"wrapped", fmt.Errorf("launch: %w", &provider.SoldOutError{Cause: "none left"}), "InsufficientCapacityError"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, newClaim("general-1"))
			w.failLaunch = tt.err
			w.until("gone", w.empty)
			if w.provider.launches != 1 || tt.event != "" && !w.events.has(tt.event) {
				t.Errorf("%d launches, events %v", w.provider.launches, w.events.events)
			}
		})
	}
}

// The machine was started by a controller that did not live to record it, and its successor finds the class not ready.
func TestAClaimThatIsRefusedTakesTheMachineAlongThatWasAskedForBefore(t *testing.T) {
	t.Parallel()
	claim := newClaim("general-1")
	claim.Annotations = kube.With(claim.Annotations, v1.LaunchTokenAnnotationKey, "asked-for")
	w := newWorld(t, claim)
	stored := w.claims()[0]
	class := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := w.provider.Provider.Launch(t.Context(), stored, provider.Class{Ref: *stored.Spec.NodeClassRef, Object: class}); err != nil {
		t.Fatal(err)
	}
	w.failLaunch = &provider.ClassNotReadyError{Class: "default", Problem: "no image"}
	for range 20 {
		w.pass(time.Second)
	}
	if n := len(w.machines()); n > 0 || len(w.claims()) > 0 {
		t.Errorf("%d machines and %d claims are left", n, len(w.claims()))
	}
}

func TestLaunchThatFailsIsTriedAgainLessAndLessOften(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.failLaunch = &provider.LaunchError{Reason: "QuotaExceeded", Err: errors.New(strings.Repeat("x", 2000))}
	for range 60 {
		w.pass(time.Second)
	}
	c := v1.GetCondition(w.claims()[0], v1.ConditionLaunched)
	if c.Status != metav1.ConditionUnknown || c.Reason != "QuotaExceeded" || len(c.Message) > 1024 {
		t.Errorf("condition %s %s, %d bytes", c.Status, c.Reason, len(c.Message))
	}
	if w.provider.launches < 5 || w.provider.launches > 7 {
		t.Errorf("%d launches in a minute", w.provider.launches)
	}
	if !w.events.has("LaunchFailed") {
		t.Errorf("nobody is told: %v", w.events.events)
	}
	w.failLaunch = nil
	w.until("initialized", w.initialized)
	if len(w.machines()) != 1 {
		t.Errorf("%d machines", len(w.machines()))
	}
}

func TestThrottledLaunchWaitsAsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.failLaunch = &provider.ThrottledError{Call: "Launch", RetryAfter: 30 * time.Second}
	for range 29 {
		w.pass(time.Second)
	}
	if w.provider.launches != 1 {
		t.Errorf("%d launches within the time that the cloud asked for", w.provider.launches)
	}
}

func TestAClaimWhoseMachineWasAskedForOutlastsAClassThatIsNotReadyForAWhile(t *testing.T) {
	t.Parallel()
	asked := newClaim("asked", func(c *v1.NodeClaim) {
		c.Annotations = map[string]string{v1.MachineDeploymentAnnotationKey: "default/workers"}
	})
	w := newWorld(t, asked, newClaim("new"))
	class := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	say := func(status metav1.ConditionStatus) {
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(class), class); err != nil {
			t.Fatal(err)
		}
		class.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: status, Reason: "OutOfReach"}}
		if err := w.client.Update(t.Context(), class); err != nil {
			t.Fatal(err)
		}
	}
	say(metav1.ConditionFalse)
	w.failLaunch = &provider.PendingError{What: "the management cluster is out of reach", RetryAfter: 5 * time.Second}
	for range 60 {
		w.pass(10 * time.Second)
	}
	if claims := w.claims(); len(claims) != 1 || claims[0].Name != "asked" || claims[0].DeletionTimestamp != nil {
		t.Fatalf("%d claims are left, want the one whose machine was asked for", len(claims))
	}
	w.failLaunch = nil
	say(metav1.ConditionTrue)
	w.until("initialized", w.initialized)
	if n := len(w.machines()); n != 1 {
		t.Errorf("%d machines", n)
	}
}

func TestMissingClassRemovesTheClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1", func(c *v1.NodeClaim) { c.Spec.NodeClassRef.Name = "missing" }))
	w.until("gone", w.empty)
	if w.provider.launches != 0 {
		t.Error("launched without a class")
	}
}

// A leader that was paused may have sent a claim that arrives when its successor has planned for the same pods.
func TestAClaimOfALeaderThatWasReplacedGetsNoMachine(t *testing.T) {
	t.Parallel()
	by := func(leader string) func(*v1.NodeClaim) {
		return func(c *v1.NodeClaim) { c.Annotations = map[string]string{v1.LeaderAnnotationKey: leader} }
	}
	w := newWorld(t, newClaim("in-time", by("before")), newClaim("nobodys"))
	leads := error(nil)
	w.reconciler.Cluster.Leader, w.reconciler.Cluster.Leads = "now", func(context.Context) error { return leads }
	if _, err := w.reconciler.Cluster.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.create(newClaim("own", by("now")))
	w.create(newClaim("stray", by("before")))
	w.create(newClaim("by-hand"))
	w.until("four machines", func() bool { return len(w.claims()) == 4 && len(w.nodes()) == 4 })
	var names []string
	for _, c := range w.claims() {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, []string{"by-hand", "in-time", "nobodys", "own"}) || w.provider.launches != 4 {
		t.Errorf("%d machines were started for %q", w.provider.launches, names)
	}
	leads = context.Canceled
	w.create(newClaim("successors", by("after")))
	for range 5 {
		w.pass(time.Second)
	}
	if len(w.claims()) != 5 || w.provider.launches != 4 {
		t.Errorf("who was replaced itself touches a claim of its successor: %d claims, %d machines", len(w.claims()), w.provider.launches)
	}
}

func TestNodeThatNeverJoinsIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.round() // launched; its node will not appear, because nobody calls outside
	w.clock.Step(15 * time.Minute)
	w.round()
	w.until("gone", w.empty)
	if !slices.Equal(w.outcomes, []bool{false}) {
		t.Errorf("outcomes %v", w.outcomes)
	}
}

func TestPlannedPodsAreNominatedBeforeTheNodeOpens(t *testing.T) {
	t.Parallel()
	preempting := func(p *corev1.Pod) { p.Status.NominatedNodeName = "elsewhere" }
	w := newWorld(t, newClaim("general-1", func(c *v1.NodeClaim) {
		c.Annotations = map[string]string{kube.PlannedPodsAnnotation: "uid-a,uid-bound,uid-preempting,uid-gone"}
	}), newPod("a", "", unschedulable), newPod("bound", "other"), newPod("stranger", "", unschedulable), newPod("preempting", "", unschedulable, preempting))
	w.until("initialized", w.initialized)
	node := w.nodes()[0]
	got := map[string]string{}
	for _, p := range w.pods() {
		got[p.Name] = p.Status.NominatedNodeName
	}
	want := map[string]string{"a": node.Name, "bound": "", "stranger": "", "preempting": "elsewhere"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("nominations %v, want %v", got, want)
	}
	if node.Annotations[kube.PlannedPodsAnnotation] != "" {
		t.Error("the node carries the list of planned pods")
	}
}

func TestExpiredClaimGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1", func(c *v1.NodeClaim) { c.Spec.ExpireAfter = v1.DurationOf(time.Hour) }))
	w.until("initialized", w.initialized)
	w.clock.Step(time.Hour)
	w.until("gone", w.empty)
	if n := w.counted("karpenter_nodeclaims_disrupted_total"); n != 1 {
		t.Errorf("%v claims count as disrupted", n)
	}
}

// TestCrashAnywhere ends the process before and after every single write of a claim's life, and starts another.
func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	total := live(t, -1, false)
	if total < 10 {
		t.Fatalf("a life has only %d writes", total)
	}
	for at := 1; at <= total; at++ {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, lost answer %v", at, lost), func(t *testing.T) {
				t.Parallel()
				live(t, at, lost)
			})
		}
	}
}

// live takes one claim through its whole life, with a crash at one of the writes, and returns how many there were.
func live(t *testing.T, crashAt int, lost bool) int {
	t.Helper()
	w := newWorld(t, newClaim("general-1", func(c *v1.NodeClaim) {
		c.Annotations = map[string]string{kube.PlannedPodsAnnotation: "uid-waiting"}
	}), newPod("waiting", "", func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}))
	w.crashAt, w.lost = crashAt, lost
	w.survive("initialized", w.initialized)
	if m := w.machines(); len(m) != 1 || len(w.claims()) != 1 || len(w.nodes()) != 1 {
		t.Fatalf("%d machines for one claim\n%s", len(m), w.describe())
	}
	w.create(newPod("a", w.nodes()[0].Name))
	w.remove(w.claims()[0])
	w.survive("gone", w.empty)
	if slices.ContainsFunc(w.pods(), func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }) {
		t.Error("a pod is left on a node that is gone")
	}
	return w.writes
}

// survive is until, over a crash.
func (w *world) survive(what string, done func() bool) {
	w.t.Helper()
	for w.until(what, done) {
		w.restart()
	}
}
