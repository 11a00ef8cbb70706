package report_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/engine"
	"tenon.sh/report"
)

func TestANodeThatStaysSaysWhy(t *testing.T) {
	for _, c := range []struct {
		code engine.Code
		want string // the reason of the events
	}{
		{engine.SavesTooLittle, "Unconsolidatable"},
		{engine.NoCheaperPlace, "Unconsolidatable"},
		{engine.OnlyWhenEmpty, "Unconsolidatable"},
		{engine.OnDemandShareLost, "Unconsolidatable"},
		{engine.DoNotDisrupt, "DisruptionBlocked"},
		{engine.EvictionBlocked, "DisruptionBlocked"},
		{engine.TooManyUnhealthy, "NodeRepairBlocked"},
		{engine.DoNotRepair, "NodeRepairBlocked"},
		{engine.RepairedElsewhere, "NodeRepairBlocked"},
		{engine.MachineLate, "MachineLate"},
		{engine.NotInitialized, ""},
		{engine.AlreadyLeaving, ""},
	} {
		w := clustertest.New(t, interceptor.Funcs{})
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n"}}
		claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c1", UID: "c"}}
		reason := engine.Reason{Code: c.code, NodePool: "general"}
		w.Recorder.Publish(report.Blocked(node, claim, reason)...)
		w.Recorder.Publish(report.Blocked(node, claim, reason)...) // an event is not repeated
		got := w.Events()
		if c.want == "" {
			if len(got) > 0 {
				t.Errorf("%s: %v", c.code, got)
			}
			continue
		}
		if len(got) != 2 || got["Node "+c.want] != 1 || got["NodeClaim "+c.want] != 1 {
			t.Errorf("%s: %v, want %s on both", c.code, got, c.want)
		}
	}
}

func TestWhatIsRejectedSaysWhyInKarpentersWords(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n"}}
	for code, want := range map[engine.Code]string{
		engine.BudgetExhausted: "budget", engine.PodsExpected: "budget", engine.PodStranded: "scheduling", engine.OnDemandShareLost: "scheduling", engine.LimitReached: "scheduling",
		engine.NotEmpty: "churn", engine.ReplacementGone: "churn", engine.OrderBroken: "unknown",
	} {
		got := report.Rejected([]*corev1.Node{node, nil}, []*v1.NodeClaim{nil}, v1.Underutilized, engine.Reason{Code: code})
		if len(got) != 1 || got[0].Object != node || !strings.HasPrefix(got[0].Message, "Consolidation rejected ("+want+"): ") {
			t.Errorf("%s: %+v, want %s", code, got, want)
		}
		if got := report.Rejected([]*corev1.Node{node}, nil, v1.Drifted, engine.Reason{Code: code}); len(got) > 0 {
			t.Errorf("%s: %+v, though it was no consolidation", code, got)
		}
	}
}

func TestACandidateSaysWhatReplacesIt(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n"}}
	d := engine.Disruption{
		Reason: v1.Underutilized, Nodes: []string{"n1", "n2"}, Replacements: []engine.Launch{{InstanceTypes: []string{"large", "huge"}}}, SavingPerHour: 0.126,
	}
	got := report.Candidates([]*corev1.Node{node}, nil, d)
	if want := "Consolidation candidate: replace n1, n2 by 1 (large), saves $0.13/h"; len(got) != 1 || got[0].Message != want || got[0].Warning {
		t.Errorf("%+v, want %q", got, want)
	}
	d.Replacements = nil
	if got := report.Candidates([]*corev1.Node{node}, nil, d); len(got) > 0 {
		t.Errorf("%+v, though nothing replaces it", got)
	}
}

func TestThatAProtectionHasEndedIsToldOnce(t *testing.T) {
	t.Parallel()
	w := clustertest.New(t, interceptor.Funcs{})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "p"}}
	for range 5 {
		w.Recorder.Publish(report.Engine(engine.Event{Object: pod, Reason: report.DoNotDisruptElapsed, Message: "it is over"}))
		w.Clock.Step(3 * time.Minute)
	}
	if got := w.Events()["Pod DoNotDisruptGracePeriodElapsed"]; got != 1 {
		t.Errorf("it is told %d times while the pod waits to be evicted", got)
	}
}

func TestAnotherReasonToStayIsToldAtOnce(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n"}}
	for range 2 {
		for _, code := range []engine.Code{engine.SavesTooLittle, engine.OwnerMoved, engine.DoNotDisrupt, engine.EvictionBlocked} {
			w.Recorder.Publish(report.Blocked(node, nil, engine.Reason{Code: code})...)
		}
	}
	if got := w.Events(); got["Node Unconsolidatable"] != 2 || got["Node DisruptionBlocked"] != 2 {
		t.Errorf("%v, want an event for each reason", got)
	}
}

// A cluster at rest does not write the same event for each of its nodes again and again; an API server forgets it after an hour.
func TestANodeThatStaysIsToldAboutOnceAnHour(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n"}}
	for minute := range 100 {
		w.Recorder.Publish(report.Blocked(node, nil, engine.Reason{Code: engine.NoCheaperPlace})...)
		w.Clock.Step(time.Minute)
		if got, want := w.Events()["Node Unconsolidatable"], 1+minute/50; got != want {
			t.Fatalf("%d events after %d minutes, want %d", got, minute, want)
		}
	}
}

func TestNodesOfALargeClusterAreToldAFewAtATime(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{})
	for i := range 5000 {
		name := fmt.Sprint("n", i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		w.Recorder.Publish(report.Blocked(node, nil, engine.Reason{Code: engine.NoCheaperPlace})...)
	}
	if got := w.Events()["Node Unconsolidatable"]; got == 0 || got > 50 {
		t.Errorf("%d events at once", got)
	}
}

func TestNodesThatStayAreCountedByReason(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := report.NewMetrics(registry, "test")
	kept := func(pool string, codes ...engine.Code) (out []engine.Kept) {
		for _, code := range codes {
			out = append(out, engine.Kept{NodePool: pool, Reason: engine.Reason{Code: code, NodePool: "any"}})
		}
		return out
	}
	m.Kept(append(kept("general", engine.SavesTooLittle, engine.SavesTooLittle), kept("spot", engine.SpotToSpot)...))
	m.Kept(append(kept("general", engine.SavesTooLittle), kept("spot", engine.BudgetExhausted)...))
	value := series(t, registry)
	for labels, want := range map[string]float64{
		"nodepool=general reason=saves_too_little": 1,
		"nodepool=spot reason=budget_exhausted":    1,
	} {
		if got := value("tenon_nodes_kept", labels); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v, want %g", labels, got, want)
		}
	}
	if got := value("tenon_nodes_kept", ""); len(got) != 2 {
		t.Errorf("%d series, want those that hold", len(got))
	}
}
