package report_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/engine"
	"tenon.sh/report"
)

// series gathers a registry and finds the values of one family by the given labels, written "a=b c=d".
func series(t *testing.T, registry prometheus.Gatherer) func(name, labels string) []float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return func(name, labels string) []float64 {
		var out []float64
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == name && has(m, labels) {
					out = append(out, m.GetGauge().GetValue()+m.GetCounter().GetValue()+float64(m.GetHistogram().GetSampleCount()))
				}
			}
		}
		return out
	}
}

func has(m *dto.Metric, labels string) bool {
	have := map[string]string{}
	for _, l := range m.GetLabel() {
		have[l.GetName()] = l.GetValue()
	}
	for want := range strings.FieldsSeq(labels) {
		name, value, _ := strings.Cut(want, "=")
		if have[name] != value {
			return false
		}
	}
	return true
}

func TestTheStateOfTheClusterIsExported(t *testing.T) {
	pool := clustertest.Pool("general")
	pool.Spec.Limits = v1.Limits{corev1.ResourceCPU: resource.MustParse("100")}
	pool.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "1"}}
	claim, node := clustertest.Machine(pool, "general-a", time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC))
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, clustertest.Bound("web", "1500m", "general-a"), clustertest.Pending("next", "1"))
	registry := prometheus.NewRegistry()
	registry.MustRegister(report.NewStateCollector(w.Cluster.Snapshot, "karpenter.kwok.sh"))
	get := series(t, registry)
	for _, c := range []struct {
		name, labels string
		want         float64
	}{
		{"karpenter_cluster_state_synced", "", 1},
		{"karpenter_cluster_state_node_count", "", 1},
		{"karpenter_nodes_allocatable", "node_name=general-a resource_type=cpu nodepool=general zone=test-zone-a managed=true instance_type=c-4x-amd64-linux", 4},
		{"karpenter_nodes_total_pod_requests", "node_name=general-a resource_type=cpu", 1.5},
		{"karpenter_nodes_current_lifetime_seconds", "node_name=general-a", 5},
		{"karpenter_cluster_utilization_percent", "resource_type=cpu", 37.5},
		{"karpenter_nodepools_limit", "nodepool=general resource_type=cpu", 100},
		{"karpenter_nodepools_allowed_disruptions", "nodepool=general reason=empty", 1},
		{"karpenter_nodepools_nodes_consuming_budgets", "nodepool=general reason=drifted", 0},
		{"karpenter_pods_state", "name=web namespace=default node=general-a scheduled=true nodepool=general managed=true", 1},
		{"karpenter_pods_state", "name=next scheduled=false managed=false", 1},
		{"operator_nodeclaim_status_condition_count", "name=general-a type=Initialized status=True", 1},
		{"operator_node_status_condition_current_status_seconds", "name=general-a type=Ready", 5},
	} {
		if got := get(c.name, c.labels); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s{%s} is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	if got := get("karpenter_nodepools_cost_total", "nodepool=general"); len(got) != 1 || got[0] < 0.1 || got[0] > 0.12 {
		t.Errorf("the pool costs %v, want the price of its machine", got)
	}
}

func TestPodsHaveNoSeriesOfTheirOwnInLargeClusters(t *testing.T) {
	var pods []client.Object
	for i := range 10_001 {
		pods = append(pods, clustertest.Pending(fmt.Sprint("pod-", i), "1"))
	}
	w := clustertest.New(t, interceptor.Funcs{}, pods...)
	registry := prometheus.NewRegistry()
	registry.MustRegister(report.NewStateCollector(w.Cluster.Snapshot))
	if got := series(t, registry)("karpenter_pods_state", ""); len(got) != 0 {
		t.Errorf("%d series of pods", len(got))
	}
}

func TestChangesOfConditionsAreCountedAndTold(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{})
	registry := prometheus.NewRegistry()
	o := report.NewStatusObserver(registry, w.Recorder, w.Clock, "nodepool")
	before := clustertest.Pool("general")
	after := before.DeepCopy()
	v1.SetCondition(after, v1.ConditionNodeClassReady, metav1.ConditionFalse, "NodeClassNotFound", "", w.Clock.Now())
	o.Handler("nodepool", true).OnUpdate(before, after)
	if got := series(t, registry)("operator_nodepool_status_condition_transitions_total", "type=Ready status=False"); len(got) != 1 || got[0] != 1 {
		t.Errorf("counted %v", got)
	}
	if events := w.Events(); events["NodePool Ready"] != 1 || events["NodePool NodeClassReady"] != 1 {
		t.Errorf("events %v", events)
	}
}

func TestPodsThatWaitedAreMeasuredFromTheirFirstPlace(t *testing.T) {
	registry := prometheus.NewRegistry()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 0, 0, 7, 0, time.UTC))
	o := report.NewPodObserver(registry, clock)
	h := o.Handler()
	waits, refused := clustertest.Pending("web", "1"), clustertest.Pending("whale", "1")
	waits.UID, refused.UID = "web", "whale"
	h.OnAdd(waits, false)
	h.OnAdd(refused, false)
	o.Decided(&engine.Plan{
		Launches: []engine.Launch{{Pods: []engine.PodID{{UID: "web"}}}},
		Unplaced: []engine.Unplaced{{Pod: engine.PodID{UID: "whale"}}},
	})
	for _, pod := range []*corev1.Pod{waits, refused} {
		bound := pod.DeepCopy()
		bound.Spec.NodeName = "a"
		h.OnUpdate(pod, bound)
		ready := bound.DeepCopy()
		ready.Status.Conditions = append(ready.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		bound.Status.Phase = corev1.PodPending
		h.OnUpdate(bound, ready)
		h.OnUpdate(bound, ready)
	}
	for name, c := range map[string]struct {
		labels string
		want   float64
	}{
		"karpenter_pods_scheduling_decision_duration_seconds":  {"", 2},
		"karpenter_pods_provisioning_bound_duration_seconds":   {"dynamic_resources=false", 1},
		"karpenter_pods_provisioning_startup_duration_seconds": {"", 1},
	} {
		if got := series(t, registry)(name, c.labels); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s counts %v, want %v", name, got, c.want)
		}
	}
}

func TestPodsAreMeasuredWhenTheyAreBoundAndReady(t *testing.T) {
	registry := prometheus.NewRegistry()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 0, 0, 7, 0, time.UTC))
	h := report.NewPodObserver(registry, clock).Handler()
	pending := clustertest.Pending("web", "1")
	pending.CreationTimestamp = metav1.NewTime(clock.Now().Add(-7 * time.Second))
	bound := pending.DeepCopy()
	bound.Spec.NodeName = "a"
	h.OnUpdate(pending, bound)
	h.OnUpdate(bound, bound)
	if got := series(t, registry)("karpenter_pods_bound_duration_seconds", "dynamic_resources=false"); len(got) != 1 || got[0] != 1 {
		t.Errorf("measured %v times, want once", got)
	}
}
