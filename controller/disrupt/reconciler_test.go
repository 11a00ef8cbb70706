package disrupt_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/disrupt"
	"tenon.sh/engine"
	"tenon.sh/engine/lifecycle"
)

var old = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newReconciler(w *clustertest.World) *disrupt.Reconciler {
	return disrupt.New(disrupt.Config{Cluster: w.Cluster, Recorder: w.Recorder, Metrics: w.Metrics})
}

func get(w *clustertest.World, name string) (*v1.NodeClaim, *corev1.Node) {
	w.Helper()
	claim, node := &v1.NodeClaim{}, &corev1.Node{}
	w.Must(w.Client.Get(w, client.ObjectKey{Name: name}, claim))
	w.Must(w.Client.Get(w, client.ObjectKey{Name: name}, node))
	return claim, node
}

func closed(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.DisruptedTaintKey })
}

func TestAnEmptyNodeIsClosedMarkedAndRemoved(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", old)
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node)
	w.Must(newReconciler(w).Reconcile(w))
	claim, node = get(w, "general-a")
	if claim.DeletionTimestamp == nil {
		t.Fatal("the claim was not deleted")
	}
	if !closed(node) {
		t.Error("the node still takes pods")
	}
	if c := v1.GetCondition(claim, v1.ConditionDisruptionReason); c == nil || c.Status != metav1.ConditionTrue || c.Reason != "Empty" || !strings.HasPrefix(c.Message, "Empty, saves $") {
		t.Errorf("the claim does not say why: %+v", c)
	}
	events := w.Events()
	if events["Node DisruptionTerminating"] != 1 || events["NodeClaim DisruptionTerminating"] != 1 {
		t.Errorf("events %v", events)
	}
	decided(w, `consolidation_type="empty",decision="delete"`, "empty")
}

// decided checks that one such decision about pool general was counted.
func decided(w *clustertest.World, what, reason string) {
	w.Helper()
	for _, text := range []string{
		`karpenter_voluntary_disruption_decisions_total{` + what + `,reason="` + reason + `"}`,
		`karpenter_voluntary_disruption_decisions_by_nodepool_total{` + what + `,nodepool="general",reason="` + reason + `"}`,
	} {
		if n := metric(w, text); n != 1 {
			w.Errorf("%s is %v, want 1", text, n)
		}
	}
}

func TestANodeInUseStays(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", old)
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, clustertest.Bound("web", "1", "general-a"))
	w.Must(newReconciler(w).Reconcile(w))
	claim, node = get(w, "general-a")
	if claim.DeletionTimestamp != nil || closed(node) {
		t.Error("a node in use was disrupted")
	}
}

// unseenPods lists pods node by node alone: the watch does not show them yet.
func unseenPods(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	asked := client.ListOptions{}
	for _, o := range opts {
		o.ApplyToList(&asked)
	}
	if pods, ok := list.(*corev1.PodList); ok && asked.FieldSelector == nil {
		pods.Items = nil
		return nil
	}
	return c.List(ctx, list, opts...)
}

// The watch lags: it shows no pod on the node, but the API server has one.
func TestAPodThatArrivedUnseenKeepsItsNode(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", old)
	w := clustertest.New(t, interceptor.Funcs{List: unseenPods}, pool, claim, node, clustertest.Bound("web", "1", "general-a"))
	w.Must(newReconciler(w).Reconcile(w))
	claim, node = get(w, "general-a")
	if claim.DeletionTimestamp != nil {
		t.Fatal("a busy node was removed as empty")
	}
	if closed(node) || v1.GetCondition(claim, v1.ConditionDisruptionReason) != nil {
		t.Error("the disruption was not taken back")
	}
	if n := metric(w, `karpenter_voluntary_disruption_failed_validations_total{consolidation_type="empty"}`); n != 1 {
		t.Errorf("%v disruptions count as overtaken", n)
	}
}

func TestEligibleNodesAreThoseOfTheLastLook(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", old)
	v1.SetCondition(claim, v1.ConditionDrifted, metav1.ConditionTrue, lifecycle.PoolDrifted, "", old)
	node.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: "true"}
	other, room := clustertest.Machine(pool, "general-b", old)
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, other, room, clustertest.Bound("web", "1", "general-a"), clustertest.Bound("api", "1", "general-b"))
	r := newReconciler(w)
	eligible := func(want float64) {
		t.Helper()
		w.Must(r.Reconcile(w))
		if got := metric(w, `karpenter_voluntary_disruption_eligible_nodes{reason="drifted"}`); got != want {
			t.Errorf("%v nodes could be disrupted, want %v", got, want)
		}
	}
	eligible(0)
	_, node = get(w, "general-a")
	node.Annotations = nil
	w.Must(w.Client.Update(w, node))
	eligible(1)
	if claim, _ := get(w, "general-a"); claim.DeletionTimestamp == nil {
		t.Fatal("the node stays")
	}
	decided(w, `consolidation_type="",decision="delete"`, "drifted")
	eligible(0)
}

func TestANodeIsClosedBeforeItsPodsAreListedAgain(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", old)
	var order []string
	w := clustertest.New(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if _, ok := o.(*corev1.Node); ok {
				order = append(order, "close")
			}
			return c.Patch(ctx, o, patch, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.PodList); ok && slices.Contains(order, "close") {
				order = append(order, "list")
			}
			return c.List(ctx, list, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			order = append(order, "delete")
			return c.Delete(ctx, o, opts...)
		},
	}, pool, claim, node)
	w.Must(newReconciler(w).Reconcile(w))
	if !slices.Equal(order, []string{"close", "list", "delete"}) {
		t.Errorf("order %v", order)
	}
}

func TestWhatAnotherProcessBeganIsTakenBackIfTheNodeIsInUse(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", old)
	node.Spec.Taints = []corev1.Taint{v1.DisruptedTaint(), {Key: "other", Effect: corev1.TaintEffectNoSchedule}}
	v1.SetCondition(claim, v1.ConditionDisruptionReason, metav1.ConditionTrue, "Empty", "Empty", old)
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, clustertest.Bound("web", "1", "general-a"))
	w.Must(newReconciler(w).Reconcile(w))
	claim, node = get(w, "general-a")
	if closed(node) || len(node.Spec.Taints) != 1 || v1.GetCondition(claim, v1.ConditionDisruptionReason) != nil {
		t.Errorf("taints %v, condition %v", node.Spec.Taints, v1.GetCondition(claim, v1.ConditionDisruptionReason))
	}
}

// Whoever heard the notice may have ended before the claim was deleted, and hears it again. Until then no pod comes to the node.
func TestANodeThatWasClosedForANoticeIsOpenedOnceNobodyActsOnIt(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", old)
	(lifecycle.Interruption{Notice: engine.Notice{Kind: engine.NoticeSpotInterruption}}).Close(node)
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoSchedule})
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, clustertest.Bound("web", "1", "general-a"))
	r := newReconciler(w)
	for range 4 {
		w.Must(r.Reconcile(w))
		if _, node = get(w, "general-a"); !closed(node) {
			t.Fatal("the node was opened")
		}
		w.Clock.Step(90 * time.Second)
	}
	w.Must(r.Reconcile(w))
	_, node = get(w, "general-a")
	if len(node.Spec.Taints) != 1 || node.Annotations[v1.NoticeAnnotationKey] != "" || node.Labels[v1.ExcludeBalancersLabelKey] != "" {
		t.Errorf("taints %v, annotations %v, labels %v", node.Spec.Taints, node.Annotations, node.Labels)
	}
}

// The notice came while the node was being disrupted, and that is taken back: pods must not come to a machine that is taken away.
func TestANodeThatTheCloudTakesStaysClosedWhenADisruptionIsTakenBack(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", old)
	node.Spec.Taints = []corev1.Taint{v1.DisruptedTaint()}
	v1.SetCondition(claim, v1.ConditionDisruptionReason, metav1.ConditionTrue, "Empty", "Empty", old)
	(lifecycle.Interruption{Notice: engine.Notice{Kind: engine.NoticeSpotInterruption}}).Close(node)
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, clustertest.Bound("web", "1", "general-a"))
	w.Must(newReconciler(w).Reconcile(w))
	claim, node = get(w, "general-a")
	if !closed(node) || v1.GetCondition(claim, v1.ConditionDisruptionReason) != nil {
		t.Errorf("taints %v, condition %v", node.Spec.Taints, v1.GetCondition(claim, v1.ConditionDisruptionReason))
	}
}

func TestWhatAnotherProcessBeganIsFinishedIfTheNodeIsStillEmpty(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", old)
	node.Spec.Taints = []corev1.Taint{v1.DisruptedTaint()}
	v1.SetCondition(claim, v1.ConditionDisruptionReason, metav1.ConditionTrue, "Empty", "Empty", old)
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node)
	r := newReconciler(w)
	w.Must(r.Reconcile(w)) // may take it back first
	w.Must(r.Reconcile(w))
	if claim, _ := get(w, "general-a"); claim.DeletionTimestamp == nil {
		t.Error("the claim was not deleted")
	}
}

func TestAClaimThatIsBeingDeletedKeepsItsMarks(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", old)
	node.Spec.Taints = []corev1.Taint{v1.DisruptedTaint()}
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, clustertest.Bound("web", "1", "general-a"))
	w.Must(w.Client.Delete(w, claim))
	w.Must(newReconciler(w).Reconcile(w))
	if _, node := get(w, "general-a"); !closed(node) {
		t.Error("a node that is being drained takes pods again")
	}
}

// The snapshot that a pass decides by is older than the deletion: a notice closed the node and told the claim to go while the
// pass was under way.
func TestAClaimThatWasDeletedDuringThePassKeepsItsMarks(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", old)
	node.Spec.Taints = []corev1.Taint{v1.DisruptedTaint()}
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, clustertest.Bound("web", "1", "general-a"))
	r := newReconciler(w)
	w.Must(r.Reconcile(w)) // sees that the node is only closed, for the first time
	snap, err := w.Cluster.Snapshot(w)
	w.Must(err)
	w.Must(w.Client.Delete(w, claim))
	w.Must(r.CarryOut(w, snap, &engine.Plan{}))
	if _, node := get(w, "general-a"); !closed(node) {
		t.Error("a node that is being drained takes pods again")
	}
}

func TestBudgetsHoldBackAndTellThePoolsOwner(t *testing.T) {
	pool := clustertest.Pool("general")
	pool.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "1"}}
	a, nodeA := clustertest.Machine(pool, "general-a", old)
	b, nodeB := clustertest.Machine(pool, "general-b", old)
	w := clustertest.New(t, interceptor.Funcs{}, pool, a, nodeA, b, nodeB)
	r := newReconciler(w)
	w.Must(r.Reconcile(w))
	w.Must(r.Reconcile(w))
	going := 0
	for _, c := range w.Claims() {
		if c.DeletionTimestamp != nil {
			going++
		}
	}
	if going != 1 {
		t.Errorf("%d claims go, the budget allows 1", going)
	}
	if w.Events()["NodePool DisruptionBlocked"] == 0 {
		t.Error("the pool's owner was not told")
	}
}

func TestNodesOfAnotherAutoscalerAreLeftAlone(t *testing.T) {
	claim, node := clustertest.Machine(clustertest.Pool("general"), "general-a", old)
	claim.Spec.NodeClassRef = &v1.NodeClassReference{Group: "example.com", Kind: "OtherClass", Name: "default"}
	node.Spec.Taints = []corev1.Taint{v1.DisruptedTaint()}
	v1.SetCondition(claim, v1.ConditionDisruptionReason, metav1.ConditionTrue, "Empty", "Empty", old)
	w := clustertest.New(t, interceptor.Funcs{}, claim, node)
	w.Must(newReconciler(w).Reconcile(w))
	claim, node = get(w, "general-a")
	if !closed(node) || v1.GetCondition(claim, v1.ConditionDisruptionReason) == nil {
		t.Error("what another autoscaler had begun was taken back")
	}
	if n := len(w.Events()); n > 0 {
		t.Errorf("%d events about a node that is somebody else's", n)
	}
}

// Nodes that a budget holds back are avoided by kube-scheduler for as long as they are to go, and no longer.
func TestNodesThatGoNextAreAvoided(t *testing.T) {
	pool := clustertest.Pool("general")
	pool.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "0"}}
	claim, node := clustertest.Machine(pool, "general-a", old)
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node)
	r := newReconciler(w)
	avoided := func() bool {
		_, node := get(w, "general-a")
		return slices.Contains(node.Spec.Taints, v1.LeavingSoonTaint())
	}
	w.Must(r.Reconcile(w))
	if !avoided() {
		t.Fatal("the node goes next, and looks like any other")
	}
	w.Put(clustertest.Bound("web", "1", "general-a"))
	w.Must(r.Reconcile(w))
	if avoided() {
		t.Error("the node is in use and stays, and is avoided all the same")
	}
}

// A node whose pods are not to be had for less says so: as events of it and of its claim, and in the metric.
func TestANodeThatStaysIsToldAndCounted(t *testing.T) {
	pool := clustertest.Pool("general")
	pool.Spec.Disruption.ConsolidationPolicy = v1.WhenEmpty
	claim, node := clustertest.Machine(pool, "general-a", old)
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, clustertest.Bound("web", "1", "general-a"))
	w.Must(newReconciler(w).Reconcile(w))
	if got := metric(w, `tenon_nodes_kept{nodepool="general",reason="only_when_empty"}`); got != 1 {
		t.Errorf("%g nodes are counted", got)
	}
	events := w.Events()
	if events["Node Unconsolidatable"] != 1 || events["NodeClaim Unconsolidatable"] != 1 {
		t.Errorf("the events are %v", events)
	}
}
