package disrupt_test

import (
	"fmt"
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
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/lifecycle"
)

// What consolidation is about to replace, what Balanced approves of and what is taken back is told under the names that
// Karpenter's users filter by.
func TestMovesOfConsolidationAreTold(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	d := &w.plan.Disruptions[0]
	d.Reason, d.SavingPerHour = v1.Underutilized, 0.12
	w.plan.Judgements = []engine.Judgement{
		{NodePool: "general", Policy: v1.Balanced, Approved: true, Nodes: d.Nodes, Claims: d.Claims, Balance: &engine.Balance{Score: 1.5, Saving: 0.3, Disruption: 0.2}},
		{NodePool: "general", Policy: v1.Balanced, Nodes: d.Nodes[:1], Claims: d.Claims[:1], Balance: &engine.Balance{Score: 0.4, Saving: 0.04, Disruption: 0.1}},
		{NodePool: "general", Policy: v1.Balanced, Approved: true, Nodes: d.Nodes[1:], Claims: d.Claims[1:], Balance: &engine.Balance{Score: 0.5, Saving: 0.05, Disruption: 0.1}},
		{NodePool: "general", Policy: v1.WhenEmptyOrUnderutilized, Nodes: d.Nodes, Claims: d.Claims},
	}
	w.Must(w.begin())
	w.outside = true
	gone := w.replacement()
	gone.Finalizers = nil
	w.Must(w.Client.Update(w, gone))
	w.Must(w.Client.Delete(w, gone)) // the offering is sold out
	w.outside = false
	w.settles()
	events := w.Events()
	for event, n := range map[string]int{
		"Node ConsolidationCandidate": 2, "NodeClaim ConsolidationCandidate": 2, "NodePool ConsolidationApproved": 1, "Node ConsolidationApproved": 1, "NodeClaim ConsolidationApproved": 1,
		"Node ConsolidationRejected": 2, "NodeClaim ConsolidationRejected": 2,
	} {
		if events[event] != n {
			t.Errorf("%d events %s, want %d", events[event], event, n)
		}
	}
	for text, want := range map[string]float64{
		`karpenter_consolidation_moves_total{decision="approved",nodepool="general",policy="Balanced"}`:                             2,
		`karpenter_consolidation_moves_total{decision="rejected",nodepool="general",policy="WhenEmptyOrUnderutilized"}`:             1,
		`karpenter_consolidation_score{decision="approved",nodepool="general",policy="Balanced"}`:                                   2,
		`karpenter_consolidation_score{decision="rejected",nodepool="general",policy="Balanced"}`:                                   1,
		`karpenter_consolidation_score{decision="rejected",nodepool="general",policy="WhenEmptyOrUnderutilized"}`:                   0,
		`karpenter_consolidation_moves_total{decision="rejected",nodepool="general",policy="Balanced"}`:                             1,
		`karpenter_voluntary_disruption_decisions_total{consolidation_type="multi",decision="replace",reason="underutilized"}`:      1,
		`karpenter_voluntary_disruption_consolidation_timeouts_total{consolidation_type="single"}`:                                  0,
		`karpenter_voluntary_disruption_failed_validations_total{consolidation_type="multi"}`:                                       0,
		`karpenter_voluntary_disruption_queue_failures_total{consolidation_type="multi",decision="replace",reason="underutilized"}`: 1,
	} {
		if got := metric(w.World, text); got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
}

// What consolidation drops before it begins is told to those who own it, and to nobody else.
func TestWhatConsolidationDropsIsTold(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	w.plan.Disruptions[0].Reason = v1.Underutilized
	w.outside = true
	w.pool.Spec.Limits = v1.Limits{v1.ResourceNodes: *resourceOf("2")}
	w.Must(w.Client.Update(w, w.pool))
	w.outside = false
	w.Must(w.begin())
	if events := w.Events(); events["Node ConsolidationRejected"] != 2 || events["NodeClaim ConsolidationRejected"] != 2 {
		t.Errorf("the limit is reached: %v", events)
	}

	w = newOrderWorld(t) // a pod runs on each node, of which the decision knows that of the first only
	d := &w.plan.Disruptions[0]
	d.Reason, d.Replacements = v1.Underutilized, nil
	d.Pods = slices.DeleteFunc(d.Pods, func(p engine.PodID) bool { return p.Name != "general-a-pod" })
	w.Must(w.begin())
	if n := metric(w.World, `karpenter_voluntary_disruption_decisions_total{consolidation_type="multi",decision="delete",reason="underutilized"}`); n != 1 {
		t.Errorf("%v decisions to delete", n)
	}
	if events := w.Events(); events["Node ConsolidationRejected"] != 1 || events["Node DisruptionTerminating"] != 1 {
		t.Errorf("a pod has come to one of two nodes: %v", events)
	}
}

// A pod that keeps its node for a while says until when.
func TestAPodThatKeepsItsNodeForAWhileIsTold(t *testing.T) {
	t.Parallel()
	pool := clustertest.Pool("general")
	pool.Spec.Disruption.ConsolidationPolicy = v1.WhenEmptyOrUnderutilized
	claim, node := clustertest.Machine(pool, "general-a", old)
	v1.SetCondition(claim, v1.ConditionDrifted, metav1.ConditionTrue, lifecycle.PoolDrifted, "", old)
	pod := clustertest.Bound("web", "1", "general-a")
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node)
	started := metav1.NewTime(w.Clock.Now().Add(-time.Minute))
	pod.Annotations, pod.Status.StartTime = map[string]string{v1.DoNotDisruptAnnotationKey: "10m"}, &started
	w.Put(pod)
	w.Must(newReconciler(w).Reconcile(w))
	if events := w.Events(); events["Pod DoNotDisruptUntil"] != 1 || events["Node DisruptionBlocked"] != 1 {
		t.Errorf("the events are %v", events)
	}
}

// What was repaired is counted by what was wrong; that too many are broken is told to the pool's owner as well.
func TestRepairsAreCountedByCondition(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		broken, healthy int
		repaired        float64
		told            int
	}{{1, 4, 1, 0}, {3, 2, 0, 1}} {
		w := clustertest.New(t, interceptor.Funcs{})
		pool := clustertest.Pool("general")
		w.Put(pool)
		for i := range c.broken + c.healthy {
			claim, node := clustertest.Machine(pool, fmt.Sprint("general-", i), old)
			if i < c.broken {
				node.Status.Conditions = []corev1.NodeCondition{{Type: "DiskBroken", Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(old)}}
			} else {
				w.Put(clustertest.Bound(fmt.Sprint("web-", i), "1", node.Name))
			}
			w.Put(claim)
			w.Put(node)
		}
		snap, err := w.Cluster.Snapshot(w)
		w.Must(err)
		for i := range snap.Classes {
			snap.Classes[i].Repairs = []engine.RepairPolicy{{Condition: "DiskBroken", Status: "True", Toleration: time.Minute}}
		}
		w.Must(newReconciler(w).CarryOut(w, snap, disruption.Plan(snap, engine.Options{}, nil)))
		repaired := metric(w, `karpenter_nodeclaims_unhealthy_disrupted_total{capacity_type="on-demand",condition="disk_broken",image_id="",nodepool="general",termination_mode="forceful"}`)
		if told := w.Events()["NodePool NodeRepairBlocked"]; repaired != c.repaired || told != c.told {
			t.Errorf("%d of %d broken: %v repaired, the pool's owner was told %d times", c.broken, c.broken+c.healthy, repaired, told)
		}
	}
}

// How many pods of an owner move is written on the pool before their nodes go; if that fails, the nodes stay for now.
func TestMovesAreWrittenDownFirst(t *testing.T) {
	t.Parallel()
	w := newOrderWorld(t)
	d := w.plan.Disruptions[0]
	w.plan.Disruptions = nil
	for i := range d.Nodes {
		w.plan.Disruptions = append(w.plan.Disruptions, engine.Disruption{
			Reason: v1.Underutilized, Nodes: d.Nodes[i : i+1], Claims: d.Claims[i : i+1], Pods: d.Pods, OwnersMoved: map[string]int{"default/ReplicaSet/web": 1},
		})
	}
	snap, err := w.Cluster.Snapshot(w)
	w.Must(err)
	w.outside = true
	w.pool.Labels = map[string]string{"changed": "since"}
	w.Must(w.Client.Update(w, w.pool))
	w.outside = false
	leaving := func() (n int) {
		for _, name := range d.Claims {
			if claim, _ := w.get(name); claim.DeletionTimestamp != nil {
				n++
			}
		}
		return n
	}
	w.Must(w.reconciler.CarryOut(w, snap, w.plan))
	if n := leaving(); n != 0 {
		t.Errorf("%d nodes go although the pool has changed since", n)
	}
	w.Must(w.begin())
	w.Must(w.Client.Get(w, client.ObjectKeyFromObject(w.pool), w.pool))
	if text := w.pool.Annotations[v1.MovedPodsAnnotationKey]; leaving() != 2 || !strings.Contains(text, `"count":2`) {
		t.Errorf("%d nodes go, and the pool remembers %s", leaving(), text)
	}
}
