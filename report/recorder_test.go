package report_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/schedulingv1alpha3"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/report"
)

func pod(i int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprint("uid-", i))}}
}

func TestRepeatedEventsAreKeptBack(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{})
	event := report.Event{Object: pod(1), Reason: "Evicted", Message: "because"}
	for range 5 {
		w.Recorder.Publish(event)
		w.Clock.Step(20 * time.Second)
	}
	if got := w.Events()["Pod Evicted"]; got != 1 {
		t.Errorf("told %d times within two minutes, want once", got)
	}
	w.Clock.Step(time.Minute)
	w.Recorder.Publish(event)
	if got := w.Events()["Pod Evicted"]; got != 2 {
		t.Errorf("told %d times, want again after two minutes", got)
	}
	var list corev1.EventList
	w.Must(w.Client.List(w, &list))
	if len(list.Items) != 1 || list.Items[0].Count != 2 {
		t.Errorf("a repeated event made %d objects, want one that counts", len(list.Items))
	}
}

func TestEventsAreLimitedAndTheRestIsToldLater(t *testing.T) {
	for reason, burst := range map[string]int{report.Nominated: 10, report.FailedScheduling: 20, "Evicted": 200} {
		t.Run(reason, func(t *testing.T) {
			w := clustertest.New(t, interceptor.Funcs{})
			publish := func() {
				for i := range 500 {
					w.Recorder.Publish(report.Event{Object: pod(i), Reason: reason, Every: time.Hour})
				}
			}
			publish()
			if got := w.Events()["Pod "+reason]; got != burst {
				t.Errorf("told %d at once, want %d", got, burst)
			}
			w.Clock.Step(time.Minute)
			publish()
			if got := w.Events()["Pod "+reason]; got != 2*burst {
				t.Errorf("told %d after another round, want %d: those that were held back come next", got, 2*burst)
			}
		})
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{})
	w.Recorder.Publish(report.Event{Object: pod(1), Reason: "Evicted", Message: strings.Repeat("ü", 2000)})
	w.Recorder.Flush(w)
	var list corev1.EventList
	w.Must(w.Client.List(w, &list))
	if len(list.Items) != 1 || len(list.Items[0].Message) > 1024 || !strings.HasSuffix(list.Items[0].Message, "ü...") {
		t.Errorf("got %+v", list.Items)
	}
}

func TestEventsAboutClusterScopedObjectsAreInTheDefaultNamespace(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{})
	w.Recorder.Publish(report.Event{Object: clustertest.Pool("general"), Warning: true, Reason: "NoCompatibleInstanceTypes"})
	w.Recorder.Flush(w)
	var list corev1.EventList
	w.Must(w.Client.List(w, &list))
	if len(list.Items) != 1 {
		t.Fatalf("%d events, want 1", len(list.Items))
	}
	e := list.Items[0]
	if e.Namespace != "default" || e.InvolvedObject.Kind != "NodePool" || e.InvolvedObject.APIVersion != "karpenter.sh/v1" ||
		e.Type != corev1.EventTypeWarning || e.Source.Component != "karpenter" {
		t.Errorf("got %+v", e)
	}
}

// An event names the version of its object that the server serves, which may be older than the version in the program.
func TestEventsNameTheVersionThatTheObjectWasReadFrom(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{})
	older := &schedulingv1alpha3.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "older", UID: "1"}}
	older.APIVersion, older.Kind = "scheduling.k8s.io/v1alpha2", "PodGroup"
	plain, kindAlone := older.DeepCopy(), pod(1)
	plain.Name, plain.UID, plain.TypeMeta, kindAlone.Kind = "plain", "2", metav1.TypeMeta{}, "Pod"
	for _, o := range []client.Object{older, plain, kindAlone} {
		w.Recorder.Publish(report.Event{Object: o, Reason: "Told", Message: "because"})
	}
	w.Recorder.Flush(w)
	var list corev1.EventList
	w.Must(w.Client.List(w, &list))
	want := map[string]string{"older": "scheduling.k8s.io/v1alpha2", "plain": "scheduling.k8s.io/v1alpha3", "pod-1": "v1"}
	for _, e := range list.Items {
		if e.InvolvedObject.APIVersion != want[e.InvolvedObject.Name] {
			t.Errorf("%s is of %s, want %s", e.InvolvedObject.Name, e.InvolvedObject.APIVersion, want[e.InvolvedObject.Name])
		}
	}
	if len(list.Items) != len(want) {
		t.Errorf("%d events, want %d", len(list.Items), len(want))
	}
}

func TestThatEventsMayNotBeWrittenIsLoggedOnce(t *testing.T) {
	forbids := apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("no rights"))
	w := clustertest.New(t, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return forbids },
	})
	var lines []string
	ctx := log.IntoContext(w, funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: 1}))
	for i := range 5 {
		w.Recorder.Publish(report.Event{Object: pod(i), Reason: "Evicted"})
		w.Recorder.Flush(ctx)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "may not write events") || !strings.Contains(lines[0], "grant create and patch of events") {
		t.Errorf("the log says %d times:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}
