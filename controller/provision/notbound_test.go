package provision_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
)

// kube-scheduler never binds the pod to the node that has room for it. After twelve minutes the pod gets an event and one machine of its own.
func TestAPodThatKubeSchedulerDoesNotBindGetsAMachine(t *testing.T) {
	t.Parallel()
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", time.Now().Add(-time.Hour))
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, clustertest.Pending("web", "1"))
	r := newReconciler(w)
	claims := func() int {
		var list v1.NodeClaimList
		w.Must(w.Client.List(w, &list))
		return len(list.Items)
	}
	for minute := range 12 {
		w.Must(r.Reconcile(w))
		if n := claims(); n != 1 || w.Events()["Pod NotBound"] != 0 {
			t.Fatalf("after %d minutes there are %d claims, events %v", minute, n, w.Events())
		}
		w.Clock.Step(time.Minute)
	}
	for range 3 {
		w.Must(r.Reconcile(w))
		w.Clock.Step(10 * time.Second)
	}
	if n := claims(); n != 2 || w.Events()["Pod NotBound"] != 1 {
		t.Errorf("there are %d claims, want the machine and one more; events %v", n, w.Events())
	}
}
