package endtoend_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
)

func TestPodsGetMachinesAndIdleMachinesGo(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.pool("round", func(p *v1.NodePool) { p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(time.Second) })
	w.deploy("inflate", 5, "1", "1Gi")
	w.running(5, time.Minute)
	for _, node := range w.nodes() {
		if node.Labels[v1.NodePoolLabelKey] != "round" || node.Labels[v1.InitializedLabelKey] != "true" {
			t.Errorf("node %s runs pods and has the labels %v", node.Name, node.Labels)
		}
	}
	w.scale("inflate", 0)
	w.until(time.Minute, func() (bool, string) {
		return len(w.nodes()) == 0 && len(w.claims()) == 0, fmt.Sprintf("%d nodes, %d claims are left", len(w.nodes()), len(w.claims()))
	})
}

func TestAPodThatFitsNothingHoldsNobodyUpAndStartsNoMachine(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.pool("small", func(p *v1.NodePool) { // a number that arithmetic would write out for minutes
		p.Spec.Limits = v1.Limits{corev1.ResourceMemory: resource.MustParse("1e999999999")}
	})
	w.deploy("whale", 1, "100", "1Gi")
	w.deploy("minnow", 3, "100m", "100Mi")
	w.until(time.Minute, func() (bool, string) {
		running := 0
		for _, pod := range w.pods() {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running == 3, fmt.Sprintf("%d of 3 small pods run", running)
	})
	var events corev1.EventList
	w.until(time.Minute, func() (bool, string) {
		w.must(w.List(w, &events))
		for _, e := range events.Items {
			if e.Reason == "FailedScheduling" && e.Source.Component == "karpenter" {
				return true, ""
			}
		}
		return false, "there is no event that says why the large pod waits"
	})
	if n := len(w.claims()); n != 1 {
		t.Errorf("%d claims for pods that fit one machine", n)
	}
}

func TestAPoolWithoutItsClassStopsOnlyItself(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.pool("broken", func(p *v1.NodePool) {
		weight := int32(50)
		p.Spec.Weight = &weight
		p.Spec.Template.Spec.NodeClassRef.Name = "nowhere"
	})
	w.pool("sound", nil)
	w.deploy("web", 3, "500m", "256Mi")
	w.running(3, time.Minute)
	var pool v1.NodePool
	w.must(w.Get(w, keyOf("broken"), &pool))
	if c := v1.GetCondition(&pool, v1.ConditionNodeClassReady); c == nil || c.Reason != "NodeClassNotFound" {
		t.Errorf("the broken pool says %+v", c)
	}
}

// TestAKilledControllerLeavesNothingBehind kills the controller with SIGKILL in the middle of a scale-up, each time at
// another moment, starts another and looks at what there is in the end. TENON_KILLS says how often.
func TestAKilledControllerLeavesNothingBehind(t *testing.T) {
	n := kills(t, 2)
	for i := range n {
		after := time.Duration(200+i*4800/max(1, n-1)) * time.Millisecond
		t.Run(fmt.Sprintf("after %v", after), func(t *testing.T) { killAfter(t, after) })
	}
}

func killAfter(t *testing.T, after time.Duration) {
	const replicas = 40
	w := newWorld(t)
	first := w.start("--boot-delay=1s")
	w.pool("killed", nil)
	w.deploy("victim", replicas, "3500m", "8Gi")
	time.Sleep(after) // the moment of the kill is what this test varies
	first.end(syscall.SIGKILL)
	w.start("--boot-delay=1s")
	w.running(replicas, 2*time.Minute)
	w.until(time.Minute, func() (bool, string) {
		claims, nodes := w.claims(), w.nodes()
		used := map[string]bool{}
		for _, pod := range w.pods() {
			used[pod.Spec.NodeName] = true
		}
		idle := 0
		for _, node := range nodes {
			if !used[node.Name] {
				idle++
			}
		}
		return len(claims) == len(nodes) && idle == 0, fmt.Sprintf("%d claims, %d nodes, %d of them idle", len(claims), len(nodes), idle)
	})
	cpu := int64(0)
	for _, node := range w.nodes() {
		cpu += node.Status.Allocatable.Cpu().MilliValue()
	}
	t.Logf("killed after %v: %d pods on %d nodes, %d claims, %.1f %% of the cpu requested", after, replicas, len(w.nodes()), len(w.claims()),
		float64(replicas*3500)/float64(cpu)*100)
}
