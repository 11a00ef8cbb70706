package keda_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

// TestNodesFollowTheQueue: KEDA's metrics-api scaler reads the length of a queue, the pod autoscaler of kube-controller-manager asks
// KEDA's adapter, Tenon buys for all workers, and nothing is left when the queue is empty. In the middle KEDA is killed.
func TestNodesFollowTheQueue(t *testing.T) {
	w := newWorld(t)
	var messages atomic.Int64
	// The proxy stands for the cluster's DNS and network: the operator asks it for http://queue.default.svc.
	queue := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Host != "queue.default.svc" {
			http.NotFound(out, r)
			return
		}
		fmt.Fprintf(out, `{"messages": %d}`, messages.Load())
	}))
	t.Cleanup(queue.Close)
	log := w.startTenon()
	k := w.startKEDA(queue.URL)
	objects := append(w.readObjects("../../examples/keda/nodepool.yaml"), w.readObjects("../../examples/keda/queue.yaml")...)
	w.applyAll(objects)
	defer w.removeAll(objects)
	began := time.Now()
	messages.Store(1000)
	w.awaitPods("worker", 200, 2*time.Minute)
	t.Logf("0 to 200 pods in %.0f s, on %d machines:\n%s", time.Since(began).Seconds(), len(w.claims("queue")), w.tenonNodes())

	// Without KEDA nobody scales, and the API server answers for a group that it does not reach. Who needs neither goes on.
	k.end()
	messages.Store(0)
	w.until(time.Minute, func() (bool, string) {
		ok, _ := w.serviceAvailable()
		return !ok, "the API server still says that KEDA's adapter is there"
	})
	alone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "alone", Namespace: "default", Labels: map[string]string{"app": "alone"}}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{v1.NodePoolLabelKey: "queue"}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{Name: "alone", Image: "alone", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("40")}}}},
	}}
	w.must(w.Create(w, alone))
	w.awaitPods("alone", 1, time.Minute)
	w.awaitPods("worker", 200, 0)
	w.must(w.Delete(w, alone))
	w.awaitPods("alone", 0, time.Minute)
	w.must(k.operator.Start(w))
	w.must(k.adapter.Start(w))
	began = time.Now()
	w.awaitPods("worker", 0, 2*time.Minute)
	w.until(time.Minute, func() (bool, string) {
		n := len(w.claims("queue"))
		return n == 0, fmt.Sprintf("%d machines are left", n)
	})
	says := w.tenonNodes()
	t.Logf("no pod and no machine %.0f s after the queue was empty and KEDA back:\n%s", time.Since(began).Seconds(), says)
	if !strings.HasPrefix(says, "0 nodes, $0.0000/h") {
		t.Errorf("tenon nodes says %q", says)
	}
	if lines := w.errorsIn(log); len(lines) > 0 {
		t.Errorf("Tenon has logged %d errors, the first: %s", len(lines), lines[0])
	}
}
