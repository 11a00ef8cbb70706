package deletioncost_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/deletioncost"
	"tenon.sh/report"

	"github.com/prometheus/client_golang/prometheus"
)

// podOf is a pod of a ReplicaSet on a node.
func podOf(name, node string) *corev1.Pod {
	pod := clustertest.Bound(name, "100m", node)
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}}
	return pod
}

// newWorld has a pool with a node and the pods.
func newWorld(t *testing.T, calls interceptor.Funcs, pods ...client.Object) (*clustertest.World, *deletioncost.Reconciler, *prometheus.Registry) {
	t.Helper()
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "n", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	w := clustertest.New(t, calls, append(pods, pool, claim, node)...)
	registry := prometheus.NewRegistry()
	return w, &deletioncost.Reconciler{Cluster: w.Cluster, Metrics: report.NewMetrics(registry, "test")}, registry
}

func annotationsOf(w *clustertest.World, name string) map[string]string {
	var pod corev1.Pod
	w.Must(w.Client.Get(w, client.ObjectKey{Namespace: "default", Name: name}, &pod))
	return pod.Annotations
}

// written is how many writes came to the result.
func written(w *clustertest.World, registry *prometheus.Registry, result string) (n float64) {
	families, err := registry.Gather()
	w.Must(err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "karpenter_pod_deletion_cost_pod_annotation_writes_total" && m.GetLabel()[0].GetValue() == result {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

func TestCostsComeAndGoWithWhatBecomesOfTheNode(t *testing.T) {
	t.Parallel()
	wish := podOf("wish", "n")
	wish.Annotations = map[string]string{v1.PodDeletionCostAnnotationKey: "5", "other": "stays"}
	w, r, registry := newWorld(t, interceptor.Funcs{}, podOf("a", "n"), wish)
	for range 2 {
		w.Must(r.Reconcile(w))
	}
	if got := annotationsOf(w, "a"); got[v1.PodDeletionCostAnnotationKey] != "-1" || got[v1.WrittenDeletionCostAnnotationKey] != "-1" {
		t.Errorf("a: %v", got)
	}
	if got := annotationsOf(w, "wish"); got[v1.PodDeletionCostAnnotationKey] != "5" || len(got) != 2 {
		t.Errorf("wish: %v", got)
	}
	if n := written(w, registry, "updated"); n != 1 {
		t.Errorf("%v writes", n)
	}
	lonely := clustertest.Bound("lonely", "100m", "n") // keeps the node
	w.Must(w.Client.Create(w, lonely))
	w.Must(r.Reconcile(w))
	if got := annotationsOf(w, "a"); len(got) != 0 {
		t.Errorf("a keeps %v", got)
	}
}

func TestAPodThatSomebodyElseWroteToIsLeftForTheNextPass(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		err    error
		result string
		fails  bool
	}{
		"changed": {apierrors.NewConflict(pods, "a", errors.New("changed")), "skipped_conflict", false},
		"gone":    {apierrors.NewNotFound(pods, "a"), "skipped_notfound", false},
		"refused": {apierrors.NewForbidden(pods, "a", errors.New("no right")), "error", true},
	} {
		fail := true
		w, r, registry := newWorld(t, interceptor.Funcs{
			Patch: func(ctx context.Context, c2 client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
				text, _ := patch.Data(o)
				if !strings.Contains(string(text), `"resourceVersion":"`) || !strings.Contains(string(text), `"uid":"pod-a"`) {
					t.Errorf("%s: %s is right for any pod of that name", name, text)
				}
				if fail {
					return c.err
				}
				return c2.Patch(ctx, o, patch, opts...)
			},
		}, podOf("a", "n"))
		if err := r.Reconcile(w); (err != nil) != c.fails || written(w, registry, c.result) != 1 {
			t.Errorf("%s: %v, and %v", name, err, written(w, registry, c.result))
		}
		fail = false
		w.Must(r.Reconcile(w))
		if got := annotationsOf(w, "a"); got[v1.PodDeletionCostAnnotationKey] != "-1" {
			t.Errorf("%s: %v", name, got)
		}
	}
}
