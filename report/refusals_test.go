package report_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/cluster/clustertest"
	"tenon.sh/engine"
	"tenon.sh/report"
)

// refused makes n pods that no pool can run. Each run of so many pods belongs to one ReplicaSet; 0 means that no pod has an owner.
func refused(n, perOwner int) (map[types.UID]*corev1.Pod, []engine.Unplaced) {
	pods := make(map[types.UID]*corev1.Pod, n)
	unplaced := make([]engine.Unplaced, 0, n)
	reasons := []engine.Reason{{Code: engine.NotEnoughResources, NodePool: "gpu", Key: "nvidia.com/gpu", Need: "9", Have: "the largest type has 8"}}
	yes := true
	for i := range n {
		p := pod(i)
		if perOwner > 0 {
			name := fmt.Sprint("set-", i/perOwner)
			p.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: types.UID(name), Controller: &yes,
			}}
		}
		pods[p.UID] = p
		unplaced = append(unplaced, engine.Unplaced{Pod: engine.PodID{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, Reasons: reasons})
	}
	return pods, unplaced
}

// messages lists the messages about objects of one kind, by name.
func messages(w *clustertest.World, kind string) map[string]string {
	w.Helper()
	var list corev1.EventList
	w.Must(w.Client.List(w, &list))
	out := map[string]string{}
	for _, e := range list.Items {
		if e.InvolvedObject.Kind == kind {
			out[e.InvolvedObject.Name] = e.Message
		}
	}
	return out
}

func TestFewRefusedPodsAreEachToldAtMostEveryFiveMinutes(t *testing.T) {
	t.Parallel()
	w := clustertest.New(t, interceptor.Funcs{})
	refusals := report.NewRefusals(w.Recorder)
	pods, unplaced := refused(5, 5)
	for range 30 { // five minutes
		refusals.Tell(pods, unplaced)
		w.Clock.Step(10 * time.Second)
	}
	if got := w.Events(); got["Pod FailedScheduling"] != 5 || len(got) != 1 {
		t.Errorf("in five minutes: %v, want one event for each pod and none for the owner", got)
	}
	if got, want := messages(w, "Pod")["pod-0"], "Failed to schedule pod, pool gpu: needs 9 nvidia.com/gpu, the largest type has 8"; got != want {
		t.Errorf("the event says\n%s, want\n%s", got, want)
	}
	refusals.Tell(pods, unplaced)
	if got := w.Events(); got["Pod FailedScheduling"] != 10 {
		t.Errorf("after five minutes: %v, want each told again", got)
	}
}

// ledger keeps events instead of writing them.
type ledger struct {
	events []corev1.Event
}

func (l *ledger) calls() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			l.events = append(l.events, *o.(*corev1.Event))
			return nil
		},
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			l.events = append(l.events, *o.(*corev1.Event))
			return nil
		},
	}
}

func TestTenThousandRefusedPodsMakeTwentyEventsASecond(t *testing.T) {
	t.Parallel()
	told := &ledger{}
	w := clustertest.New(t, told.calls())
	refusals := report.NewRefusals(w.Recorder)
	pods, unplaced := refused(10_000, 2_000) // five owners
	last := map[string]time.Time{}
	kinds := map[string]int{}
	for second := range 520 {
		told.events = nil
		refusals.Tell(pods, unplaced)
		w.Recorder.Flush(w)
		if n := len(told.events); n > 20 || n < 15 {
			t.Fatalf("second %d: %d events, want 20 or a few less", second, n)
		}
		for _, e := range told.events {
			about := e.InvolvedObject.Kind + " " + e.InvolvedObject.Name
			if before, ok := last[about]; ok && w.Clock.Since(before) < 5*time.Minute {
				t.Fatalf("second %d: %s was told after %s", second, about, w.Clock.Since(before))
			}
			last[about] = w.Clock.Now()
			kinds[e.InvolvedObject.Kind]++
		}
		if second == 0 {
			if kinds["ReplicaSet"] != 5 || kinds["Pod"] != 15 {
				t.Fatalf("at once: %v, want one event for each owner and the rest for pods", kinds)
			}
			want := "Failed to schedule 1985 pods, beside those with events of their own, pool gpu: needs 9 nvidia.com/gpu, the largest type has 8"
			if got := told.events[15].Message; got != want {
				t.Errorf("the owner's event says\n%s, want\n%s", got, want)
			}
		}
		w.Clock.Step(time.Second)
	}
	if len(last) != 10_005 {
		t.Errorf("in 520 seconds %d pods and owners were told, want all 10,005", len(last))
	}
}

func TestEveryOwnerAndEveryLonePodHasItsTurn(t *testing.T) {
	t.Parallel()
	events := &ledger{}
	w := clustertest.New(t, events.calls())
	refusals := report.NewRefusals(w.Recorder)
	pods, unplaced := refused(3_000, 3) // a thousand owners, whose events take 50 seconds
	lone, unplacedLone := refused(200, 0)
	for _, u := range unplacedLone {
		p := lone[u.Pod.UID]
		p.Name, p.UID = "lone-"+p.Name, "lone-"+p.UID
		pods[p.UID] = p
		u.Pod.Name, u.Pod.UID = p.Name, p.UID
		unplaced = append(unplaced, u)
	}
	for range 61 {
		refusals.Tell(pods, unplaced)
		w.Recorder.Flush(w)
		w.Clock.Step(time.Second)
	}
	owners, alone := map[string]bool{}, map[string]bool{}
	for _, e := range events.events {
		switch {
		case e.InvolvedObject.Kind == "ReplicaSet":
			owners[e.InvolvedObject.Name] = true
		case strings.HasPrefix(e.InvolvedObject.Name, "lone-"):
			alone[e.InvolvedObject.Name] = true
		}
	}
	if len(owners) != 1000 || len(alone) != 200 {
		t.Errorf("%d owners and %d pods without an owner were told in a minute, want all 1000 and 200", len(owners), len(alone))
	}
}

func TestAPodThatAskedToBeLeftAloneIsNotTold(t *testing.T) {
	t.Parallel()
	w := clustertest.New(t, interceptor.Funcs{})
	pods, unplaced := refused(1, 0)
	unplaced[0].Reasons = []engine.Reason{{Code: engine.NotOnManagedNodes}}
	report.NewRefusals(w.Recorder).Tell(pods, unplaced)
	if got := w.Events(); len(got) != 0 {
		t.Errorf("told %v, want nothing", got)
	}
}

func TestPoolsThatRefuseForTheSameReasonShareTheirWords(t *testing.T) {
	t.Parallel()
	taint := func(pool string) engine.Reason {
		return engine.Reason{Code: engine.TaintNotTolerated, NodePool: pool, Have: "team=blue:NoSchedule"}
	}
	reasons := []engine.Reason{taint("a"), {Code: engine.NotEnoughResources, NodePool: "b", Key: "cpu", Need: "9", Have: "the largest type has 8"}}
	for _, pool := range []string{"c", "d", "e", "f", "g"} {
		reasons = append(reasons, taint(pool))
	}
	want := "pools a, c, d, e, f and 1 more: the pod does not tolerate the taint team=blue:NoSchedule; pool b: needs 9 cpu, the largest type has 8"
	if got := engine.Sentence(reasons); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// The benchmark measures the cost of events about ten thousand pods that nothing can run, without writing the events.
func BenchmarkTellTenThousandRefusedPods(b *testing.B) {
	told := &ledger{}
	w := clustertest.New(b, told.calls())
	refusals := report.NewRefusals(w.Recorder)
	pods, unplaced := refused(10_000, 100)
	b.ReportAllocs()
	for b.Loop() {
		refusals.Tell(pods, unplaced)
		w.Clock.Step(10 * time.Second)
		b.StopTimer()
		w.Recorder.Flush(w)
		told.events = nil
		b.StartTimer()
	}
}
