package disrupt_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/playground/playgroundtest"
)

func TestNodesGoOnceTheirReplacementIsReady(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	w.Must(w.begin())
	replacement := w.replacement()
	if replacement == nil || len(w.mine()) != 3 {
		t.Fatalf("%d claims, replacement %v", len(w.mine()), replacement)
	}
	for _, name := range []string{"general-a", "general-b"} {
		claim, node := w.get(name)
		c := v1.GetCondition(claim, v1.ConditionDisruptionReason)
		if claim.DeletionTimestamp != nil || !closed(node) || c == nil || c.Status != metav1.ConditionTrue || c.Reason != "Drifted" || c.Message != "Drifted" {
			t.Errorf("%s: deleted %v, closed %v, condition %+v", name, claim.DeletionTimestamp, closed(node), c)
		}
	}
	w.Must(w.reconciler.Reconcile(w)) // not ready yet
	if claim, node := w.get("general-a"); claim.DeletionTimestamp != nil || !closed(node) {
		t.Error("the claim goes before its replacement is ready")
	}
	w.settles()
	if claim, _ := w.get("general-a"); claim != nil {
		t.Error("the node was not replaced")
	}
	events := w.Events()
	for event, n := range map[string]int{
		"NodeClaim DisruptionLaunching": 1, "NodeClaim DisruptionWaitingReadiness": 1, "NodeClaim DisruptionTerminating": 2, "Node DisruptionTerminating": 2,
	} {
		if events[event] != n {
			t.Errorf("%d events %s, want %d", events[event], event, n)
		}
	}
	for text, want := range map[string]float64{
		`karpenter_voluntary_disruption_decisions_total{consolidation_type="",decision="replace",reason="drifted"}`:                                                    1,
		`karpenter_voluntary_disruption_decisions_by_nodepool_total{consolidation_type="",decision="replace",nodepool="general",reason="drifted"}`:                     1,
		`karpenter_nodeclaims_created_total{min_values_relaxed="false",nodepool="general",reason="drifted"}`:                                                           1,
		`karpenter_nodeclaims_disrupted_total{capacity_type="on-demand",consolidation_policy="",nodepool="general",reason="drifted",termination_mode="graceful"}`:      2,
		`karpenter_pods_disruption_initiated_total{capacity_type="on-demand",consolidation_policy="",nodepool="general",reason="drifted",termination_mode="graceful"}`: 2,
	} {
		if got := metric(w.World, text); got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
}

// A process that ends after any of its writes, or does not hear the answer to it, leaves something that the next one
// finishes or takes back: no claim is there twice, none is left over, and no node stays closed.
func TestEveryWriteMayBeTheLastOne(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		for n := 1; ; n++ {
			w := newOrderWorld(t)
			if !crashAt(w, n, lost, nothing) {
				if n < 10 {
					t.Errorf("only %d writes", n)
				}
				break
			}
		}
	}
}

func nothing() {}

// The same if one of the two nodes has to stay.
func TestEveryWriteMayBeTheLastOneOfAnOrderThatGoesInPart(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		for n := 1; ; n++ {
			w := newOrderWorld(t)
			w.inPart = true
			if !crashAt(w, n, lost, func() { w.Put(clustertest.Bound("late", "2900m", "general-a")) }) {
				if b, _ := w.get("general-b"); b != nil {
					t.Error("general-b stays though its pod has a place")
				}
				if n < 10 {
					t.Errorf("only %d writes", n)
				}
				break
			}
		}
	}
}

// crashAt begins, ends the process at the n-th write and goes on with a new one. Meanwhile is called once the disruption has begun. It reports
// whether there were as many writes.
func crashAt(w *orderWorld, n int, lost bool, meanwhile func()) (crashed bool) {
	w.Helper()
	w.crashAt, w.lost = n, lost
	_ = w.begin()
	w.outside = true
	meanwhile()
	w.world()
	for range 10 {
		if w.writes >= n {
			break
		}
		_ = w.pass()
	}
	crashed = w.writes >= n
	w.restart()
	w.settles()
	if w.Failed() {
		w.Fatalf("crash at write %d, answer lost: %v", n, lost)
	}
	return crashed
}

// The same on a real API server, for every second write, with what its controllers do.
func TestEveryWriteMayBeTheLastOneOnARealServer(t *testing.T) {
	rest := playgroundtest.Get(t).RESTConfig()
	if err := cluster.ApplyCRDs(t.Context(), rest); err != nil {
		t.Fatal(err)
	}
	for _, lost := range []bool{false, true} {
		more := true
		for n := 1; more; n++ {
			t.Run(fmt.Sprintf("write %d lost %v", n, lost), func(t *testing.T) {
				more = crashAt(newServerWorld(t, fmt.Sprintf("crash-%d-%v", n, lost)), n, lost, nothing)
			})
			if t.Failed() {
				return
			}
		}
	}
}

// A process that ends after it has marked the claims, and before it has asked for their replacement, says nothing about
// replacements: the next one begins anew and does not wait as it would if they could not be had.
func TestAReplacementThatNobodyAskedForHasNotFailed(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		w := newOrderWorld(t)
		w.crashAt = n
		_ = w.begin()
		if w.replacement() != nil {
			if n < 4 {
				t.Errorf("the replacement was there after %d writes", n)
			}
			return
		}
		w.Clock.Step(time.Second)
		w.restart()
		w.settles()
		for _, c := range w.mine() {
			if text := c.Annotations[v1.DisruptionBackoffAnnotationKey]; text != "" {
				t.Errorf("end at write %d: claim %s waits: %s", n, c.Name, text)
			}
		}
	}
}

func TestAReplacementThatCannotBeLaunchedKeepsTheNodes(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	w.Must(w.begin())
	w.outside = true
	gone := w.replacement()
	gone.Finalizers = nil
	w.Must(w.Client.Update(w, gone))
	w.Must(w.Client.Delete(w, gone)) // as the controller of claims does when an offering is sold out
	w.outside = false
	w.settles()
	if claim, _ := w.get("general-a"); claim == nil {
		t.Error("the node went without replacement")
	}
	if got := metric(w.World, `karpenter_voluntary_disruption_queue_failures_total{consolidation_type="",decision="replace",reason="drifted"}`); got != 1 {
		t.Errorf("%v failures counted", got)
	}
	if w.Events()["Node DisruptionBlocked"] != 2 {
		t.Error("nobody is told that the nodes stay")
	}
}

// The next attempt waits a minute after the first failure, two after the second; other pools do not wait.
func TestAfterReplacementsFailedTheirPoolWaits(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	for _, wait := range []time.Duration{time.Minute, 2 * time.Minute} {
		w.plan = w.decide()
		w.Must(w.begin())
		w.outside = true
		gone := w.replacement()
		w.let(gone)
		w.Must(client.IgnoreNotFound(w.Client.Delete(w, gone)))
		w.outside = false
		w.settles()
		failed := w.Clock.Now()
		for w.Clock.Now().Sub(failed) < wait-15*time.Second {
			w.Must(w.begin())
			if w.replacement() != nil {
				t.Fatalf("the next attempt began %v after the failure", w.Clock.Now().Sub(failed))
			}
			w.Clock.Step(5 * time.Second)
		}
		w.Clock.Step(20 * time.Second)
	}
	w.Must(w.begin())
	if w.replacement() == nil {
		t.Error("there is no next attempt")
	}
	if w.Events()["NodePool DisruptionBlocked"] == 0 {
		t.Error("the pool's owner was not told")
	}
}

func TestAReplacementThatIsNeverReadyIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	w.Must(w.begin())
	w.Clock.Step(9 * time.Minute)
	w.Must(w.reconciler.Reconcile(w))
	if _, node := w.get("general-a"); !closed(node) || w.replacement() == nil {
		t.Fatal("given up before its time")
	}
	w.restart()
	w.Clock.Step(2 * time.Minute)
	w.Must(w.reconciler.Reconcile(w))
	if r := w.replacement(); r != nil && r.DeletionTimestamp == nil {
		t.Error("the replacement is kept")
	}
	w.settles()
	if claim, _ := w.get("general-a"); claim == nil {
		t.Error("the node went without replacement")
	}
}

func TestAClaimThatSomebodyDeletesInTheMiddleStopsNothing(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	w.Must(w.begin())
	w.outside = true
	claim, _ := w.get("general-a")
	w.Must(w.Client.Delete(w, claim))
	w.outside = false
	w.settles()
	if claim, _ := w.get("general-b"); claim != nil {
		t.Error("the other node was not replaced")
	}
}

func TestBothClaimsDeletedInTheMiddleLeaveTheReplacement(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	w.Must(w.begin())
	w.outside = true
	for _, name := range []string{"general-a", "general-b"} {
		claim, _ := w.get(name)
		w.Must(w.Client.Delete(w, claim))
	}
	w.outside = false
	w.settles()
	if w.replacement() == nil {
		t.Error("the pods' machine was given up")
	}
}

func TestAPoolDeletedInTheMiddleTakesTheReplacementAlong(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	w.Must(w.begin())
	w.outside = true
	w.Must(w.Client.Delete(w, w.pool)) // its claims are left alone, as with --cascade=orphan
	w.outside = false
	w.settles()
	if claim, _ := w.get("general-a"); claim == nil {
		t.Error("a node of a pool that is gone was replaced")
	}
}

// The watch does not show a pod that was bound just before the node was closed. Nothing goes while that is so.
func TestAPodThatLandsJustBeforeTheTaintIsSeen(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	w.Must(w.begin())
	w.world()
	w.outside = true
	w.Put(clustertest.Bound("late", "1", "general-a"))
	w.outside = false
	w.list = func(list *corev1.PodList) { // the watch lags; what is listed node by node comes from the API server
		if len(list.Items) > 2 {
			kept := list.Items[:0]
			for _, p := range list.Items {
				if p.Name != "late" {
					kept = append(kept, p)
				}
			}
			list.Items = kept
		}
	}
	w.Must(w.reconciler.Reconcile(w))
	if claim, _ := w.get("general-a"); claim.DeletionTimestamp != nil {
		t.Fatal("the claim was deleted although an unknown pod runs on its node")
	}
	w.list = nil
	w.settles()
	if claim, _ := w.get("general-a"); claim != nil {
		t.Error("the pod has room on the replacement, so the node should go")
	}
}

func TestAPodForWhichThereIsNoRoomKeepsItsNode(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	w.Must(w.begin())
	w.world()
	w.outside, w.inPart = true, true
	w.Put(clustertest.Bound("late", "2900m", "general-a"))
	w.outside = false
	w.settles()
	a, node := w.get("general-a")
	b, _ := w.get("general-b")
	if a == nil || closed(node) || b != nil || w.replacement() == nil {
		t.Error("the replacement has room for the pod of general-b only, so general-a has to stay")
	}
	if w.Events()["Node DisruptionBlocked"] == 0 {
		t.Error("nobody is told that a node stays")
	}
}

func TestADrainedNodeOfAnOrderStaysClosedThoughSomebodyOpensIt(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	w.Must(w.begin())
	w.outside = true
	_, node := w.get("general-a")
	node.Spec.Taints = nil
	w.Must(w.Client.Update(w, node))
	w.outside = false
	w.Must(w.reconciler.Reconcile(w))
	if _, node := w.get("general-a"); !closed(node) {
		t.Error("new pods may come to the node")
	}
}

func TestALimitThatOthersHaveReachedMeanwhileKeepsTheNodes(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	w.outside = true
	w.pool.Spec.Limits = v1.Limits{v1.ResourceNodes: *resourceOf("2")}
	w.Must(w.Client.Update(w, w.pool))
	w.outside = false
	w.Must(w.begin())
	if len(w.mine()) != 2 {
		t.Errorf("%d claims, the limit is 2", len(w.mine()))
	}
	if err := w.check(); err != nil {
		t.Error(err)
	}
}

// Two processes believe for a moment that they lead, and decide the same from the same snapshot.
func TestTwoLeadersReplaceOnce(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	snap, err := w.Cluster.Snapshot(w)
	w.Must(err)
	w.Must(w.reconciler.CarryOut(w, snap, w.plan))
	w.restart()
	w.Must(w.reconciler.CarryOut(w, snap, w.plan))
	if len(w.mine()) != 3 {
		t.Errorf("%d claims, want two and their replacement", len(w.mine()))
	}
	if claim, node := w.get("general-a"); !closed(node) || claim.Annotations[inventory.DisruptionAnnotation] == "" {
		t.Error("the second has taken back what the first began")
	}
	w.settles()
	if claim, _ := w.get("general-a"); claim != nil {
		t.Error("the node was not replaced")
	}
}

// The second one decides a moment later, so its decision has another name.
func TestALeaderThatDecidesLaterLeavesTheFirstOneAlone(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	snap, err := w.Cluster.Snapshot(w)
	w.Must(err)
	w.Must(w.reconciler.CarryOut(w, snap, w.plan))
	first := w.replacement()
	w.Clock.Step(100 * time.Millisecond)
	w.restart()
	w.Must(w.reconciler.CarryOut(w, snap, w.plan))
	if second := w.replacement(); len(w.mine()) != 3 || second == nil || second.Name != first.Name {
		t.Errorf("%d claims, want two and the first one's replacement", len(w.mine()))
	}
	w.settles()
	if claim, _ := w.get("general-a"); claim != nil {
		t.Error("the node was not replaced")
	}
}

// Others write to claims and nodes all the time.
func TestWritesOfOthersDoNotStopAReplacement(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	snap, err := w.Cluster.Snapshot(w)
	w.Must(err)
	w.outside = true
	for _, name := range []string{"general-a", "general-b"} {
		claim, node := w.get(name)
		claim.Labels["written"], node.Labels["written"] = "meanwhile", "meanwhile"
		w.Must(w.Client.Update(w, claim))
		w.Must(w.Client.Update(w, node))
	}
	w.outside = false
	w.Must(w.reconciler.CarryOut(w, snap, w.plan))
	if w.replacement() == nil {
		t.Fatal("the disruption was dropped")
	}
	if claim, node := w.get("general-a"); !closed(node) || claim.Labels["written"] != "meanwhile" || node.Labels["written"] != "meanwhile" {
		t.Errorf("node closed: %v, labels %v", closed(node), claim.Labels)
	}
}

func TestAnUnreadableMarkIsTakenBack(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", `{"id":"x"}`, `{"id":"x","claims":["other"],"replacements":["y"]}`} {
		w := newOrderWorld(t)
		w.outside = true
		claim, node := w.get("general-a")
		claim.Annotations = map[string]string{inventory.DisruptionAnnotation: text}
		w.Must(w.Client.Update(w, claim))
		node.Spec.Taints = []corev1.Taint{v1.DisruptedTaint()}
		w.Must(w.Client.Update(w, node))
		w.outside = false
		w.settles()
	}
}

func TestTheBudgetCountsNodesThatWaitForTheirReplacement(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	w.Must(w.begin())
	snap, err := w.Cluster.Snapshot(w)
	w.Must(err)
	if a := budget.PoolAllowance(snap, w.pool, v1.Empty); a.Disrupting != 2 {
		t.Errorf("%d nodes count as disrupting", a.Disrupting)
	}
}

func TestAnEmptyReplacementIsNotRemovedAsEmpty(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	w.Must(w.begin())
	w.world()
	snap, err := w.Cluster.Snapshot(w)
	w.Must(err)
	if d := disruption.Plan(snap, engine.Options{}, nil).Disruptions; len(d) > 0 {
		t.Errorf("%+v", d)
	}
}

// After a restart the watch may be behind: it does not show a replacement that exists.
func TestAReplacementThatOnlyTheAPIServerKnowsIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	w.Must(w.begin())
	w.restart()
	blind := &blindClient{WithWatch: w.Client, name: w.replacement().Name}
	config := w.Cluster.Config
	config.API, config.Client = w.Client, blind
	w.Cluster = cluster.New(config)
	w.reconciler = newReconciler(w.World)
	w.Must(w.reconciler.Reconcile(w))
	if _, node := w.get("general-a"); !closed(node) {
		t.Error("the disruption was taken back")
	}
}

// blindClient does not show one claim.
type blindClient struct {
	client.WithWatch
	name string
}

func (c *blindClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.WithWatch.List(ctx, list, opts...)
	if claims, ok := list.(*v1.NodeClaimList); ok {
		kept := claims.Items[:0]
		for _, item := range claims.Items {
			if item.Name != c.name {
				kept = append(kept, item)
			}
		}
		claims.Items = kept
	}
	return err
}

func TestWhoeverWantsToKnowHearsWhatHasBegun(t *testing.T) {
	w := newOrderWorld(t)
	var told [][]engine.Disruption
	w.reconciler.Begun = func(_ *engine.Snapshot, _ *engine.Plan, begun []engine.Disruption) { told = append(told, begun) }
	w.Must(w.begin())
	w.Must(w.pass())
	if len(told) != 2 || len(told[0]) != 1 || !slices.Equal(told[0][0].Claims, w.plan.Disruptions[0].Claims) || len(told[1]) != 0 {
		t.Errorf("told %+v", told)
	}
}
