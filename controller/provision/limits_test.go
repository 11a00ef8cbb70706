package provision_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
)

// A limit whose resource no machine has bounds nothing: the pool is told, once an hour.
func TestAPoolIsToldOfALimitThatBoundsNothing(t *testing.T) {
	pool := clustertest.Pool("general")
	pool.Spec.Limits = v1.Limits{"cpus": resource.MustParse("4"), "memory": resource.MustParse("4Ti")}
	w := clustertest.New(t, interceptor.Funcs{}, pool, clustertest.Pending("web", "1"))
	r := newReconciler(w)
	for range 3 {
		w.Must(r.Reconcile(w))
		w.Clock.Step(10 * time.Minute)
	}
	if n := w.Events()["NodePool UnknownLimit"]; n != 1 {
		t.Errorf("told %d times in half an hour, want once: %v", n, w.Events())
	}
}

// A machine that leaves little memory to pods which request none is started if nothing else will do: the pool is told.
func TestAPoolIsToldOfPodsThatGetLittleMemory(t *testing.T) {
	pool := clustertest.Pool("general")
	pool.Annotations = map[string]string{v1.MinMemoryAnnotationKey: "1Pi"}
	w := clustertest.New(t, interceptor.Funcs{}, pool, clustertest.Pending("web", "1"))
	w.Must(newReconciler(w).Reconcile(w))
	if n := w.Events()["NodePool LittleMemory"]; n != 1 {
		t.Errorf("told %d times, want once: %v", n, w.Events())
	}
}
