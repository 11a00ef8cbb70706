package provision_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/cluster/clustertest"
)

// hopeless is n pods of one ReplicaSet that fit nothing, beside a pool.
func hopeless(n int) []client.Object {
	objects := []client.Object{clustertest.Pool("general")}
	yes := true
	for i := range n {
		pod := clustertest.Pending(fmt.Sprint("huge-", i), "5000")
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "huge", UID: types.UID("replicaset-huge"), Controller: &yes,
		}}
		objects = append(objects, pod)
	}
	return objects
}

func TestTenThousandHopelessPodsDoNotFloodTheAPIServer(t *testing.T) {
	t.Parallel()
	w := clustertest.New(t, interceptor.Funcs{}, hopeless(10_000)...)
	r := newReconciler(w)
	for pass := range 3 {
		w.Must(r.Reconcile(w))
		got := w.Events()
		if got["ReplicaSet FailedScheduling"] != 1 {
			t.Errorf("pass %d: the owner was told %d times, want once in five minutes", pass, got["ReplicaSet FailedScheduling"])
		}
		if n := got["Pod FailedScheduling"]; n != 19+20*pass {
			t.Errorf("pass %d: %d pods were told, want %d", pass, n, 19+20*pass)
		}
		w.Clock.Step(time.Second)
	}
}

// A pass over ten thousand pods that nothing can run; most of it is spent in the API server that the tests have.
func BenchmarkPassOverTenThousandHopelessPods(b *testing.B) {
	w := clustertest.New(b, interceptor.Funcs{}, hopeless(10_000)...)
	r := newReconciler(w)
	b.ReportAllocs()
	for b.Loop() {
		w.Must(r.Reconcile(w))
		w.Clock.Step(10 * time.Second)
	}
}
