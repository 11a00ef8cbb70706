package keda_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestTenonGoesOnWithoutKEDAsDefinitions removes KEDA's definitions while its workers run. Nobody scales any more: pods and machines
// stay until somebody says how many there are to be, and machines go with the pods.
func TestTenonGoesOnWithoutKEDAsDefinitions(t *testing.T) {
	w := newWorld(t)
	queue := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { fmt.Fprint(out, `{"messages": 100}`) }))
	t.Cleanup(queue.Close)
	log := w.startTenon()
	w.startKEDA(queue.URL)
	objects := append(w.readObjects("../../examples/keda/nodepool.yaml"), w.readObjects("../../examples/keda/queue.yaml")...)
	w.applyAll(objects)
	remaining := objects[:len(objects)-1] // without the ScaledObject, whose kind goes
	defer func() { w.removeAll(remaining) }()
	w.awaitPods("worker", 20, 2*time.Minute)

	files, err := filepath.Glob(filepath.Join(w.moduleFolder(), "config/crd/bases/*.yaml"))
	w.must(err)
	for _, file := range files {
		for _, d := range w.readObjects(file) {
			w.must(w.Delete(w, d))
			w.until(time.Minute, func() (bool, string) {
				return apierrors.IsNotFound(w.Get(w, client.ObjectKeyFromObject(d), d)), d.GetName() + " is still there"
			})
		}
	}
	machines := len(w.claims("queue"))
	end := time.Now().Add(30 * time.Second)
	w.until(time.Minute, func() (bool, string) {
		w.awaitPods("worker", 20, 0)
		if n := len(w.claims("queue")); n != machines {
			t.Fatalf("%d machines, %d before KEDA's definitions were removed", n, machines)
		}
		return time.Now().After(end), "the watch did not end"
	})
	worker := &appsv1.Deployment{}
	w.must(w.Get(w, types.NamespacedName{Namespace: "default", Name: "worker"}, worker))
	before := client.MergeFrom(worker.DeepCopy())
	worker.Spec.Replicas = new(int32(0))
	w.must(w.Patch(w, worker, before))
	w.awaitPods("worker", 0, time.Minute)
	w.until(time.Minute, func() (bool, string) {
		n := len(w.claims("queue"))
		return n == 0, fmt.Sprintf("%d machines are left", n)
	})
	if says := w.tenonNodes(); !strings.HasPrefix(says, "0 nodes, $0.0000/h") {
		t.Errorf("tenon nodes says %q", says)
	}
	if lines := w.errorsIn(log); len(lines) > 0 {
		t.Errorf("Tenon has logged %d errors, the first: %s", len(lines), lines[0])
	}
}
