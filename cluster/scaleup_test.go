package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/engine"
)

// eventSource lists events and shows no later ones. Without events it returns an error.
type eventSource struct{ events []corev1.Event }

func (s eventSource) List(metav1.ListOptions) (runtime.Object, error) {
	if s.events == nil {
		return nil, errors.New("events is forbidden")
	}
	return &corev1.EventList{Items: s.events}, nil
}

func (eventSource) Watch(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }

// IsWatchListSemanticsUnSupported makes the informer list instead of stream.
func (eventSource) IsWatchListSemanticsUnSupported() bool { return true }

func scaleUpEvent(name, pod, source, message string, at time.Time) corev1.Event {
	return corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(at)},
		Reason:     "TriggeredScaleUp", Message: message, Source: corev1.EventSource{Component: source},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", UID: types.UID(pod)}, LastTimestamp: metav1.NewTime(at.Add(time.Hour)),
	}
}

func scaleUpsWith(t *testing.T, ctx context.Context, source toolscache.ListerWatcher, pods ...string) []engine.ScaleUp {
	t.Helper()
	w := clustertest.New(t, interceptor.Funcs{}, clustertest.Pool("general"))
	for _, name := range pods {
		w.Put(clustertest.Pending(name, "500m"))
	}
	bound := clustertest.Pending("bound", "500m")
	bound.Spec.NodeName = "n"
	w.Put(bound)
	config := w.Cluster.Config
	config.ScaleUps = cluster.ScaleUpsFrom(source, 15*time.Minute)
	config.ScaleUps.Listen(ctx, w.Clock)
	s, err := cluster.New(config).Snapshot(ctx)
	w.Must(err)
	return s.ScaleUps
}

func TestWhatClusterAutoscalerSaysOfPodsThatWaitIsBelievedForAWhile(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	got := scaleUpsWith(t, t.Context(), eventSource{[]corev1.Event{
		scaleUpEvent("one", "pod-web", "cluster-autoscaler", "pod triggered scale-up: [{gpu 1->2 (max: 10)} {gpu-b 0->1 (max: 3)}]", at),
		scaleUpEvent("again", "pod-web", "cluster-autoscaler", "pod triggered scale-up: [{gpu 2->3 (max: 10)}]", at.Add(time.Minute)),
		scaleUpEvent("odd", "pod-db", "cluster-autoscaler", "nobody knows", at),
		scaleUpEvent("forged", "pod-other", "somebody", "pod triggered scale-up: [{gpu 1->2 (max: 10)}]", at),
		scaleUpEvent("runs", "pod-bound", "cluster-autoscaler", "pod triggered scale-up: [{gpu 1->2 (max: 10)}]", at),
		scaleUpEvent("gone", "pod-gone", "cluster-autoscaler", "pod triggered scale-up: [{gpu 1->2 (max: 10)}]", at),
	}}, "web", "db", "other")
	want := []engine.ScaleUp{
		{Pod: "pod-db", Group: "of unknown name", Until: at.Add(15 * time.Minute)},
		{Pod: "pod-web", Group: "gpu", Until: at.Add(16 * time.Minute)},
		{Pod: "pod-web", Group: "gpu, gpu-b", Until: at.Add(15 * time.Minute)},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

func TestWhoMayNotReadEventsBelievesNothingAndSaysSo(t *testing.T) {
	var lines strings.Builder
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines.WriteString(args + "\n") }, funcr.Options{}))
	if got := scaleUpsWith(t, ctx, eventSource{}, "web"); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(lines.String(), "cannot hear for which pods Cluster Autoscaler starts nodes") || !strings.Contains(lines.String(), "events is forbidden") {
		t.Errorf("the log says %q", lines.String())
	}
}
