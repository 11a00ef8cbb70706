package provisioningrequest_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/api/autoscalingv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/provision"
	"tenon.sh/controller/provisioningrequest"
	"tenon.sh/report"

	"github.com/prometheus/client_golang/prometheus"
)

// newWorld has a pool, a PodTemplate of one core and a request of the class for so many of its pods, and a provisioner.
func newWorld(t *testing.T, requests bool, class string, count int32) (*clustertest.World, *provision.Reconciler) {
	t.Helper()
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shape"}}
	template.Template.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("900m")}}}}
	request := &autoscalingv1.ProvisioningRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r", UID: "r", CreationTimestamp: metav1.Now()}}
	request.Spec.ProvisioningClassName = class
	request.Spec.PodSets = []autoscalingv1.PodSet{{PodTemplateRef: autoscalingv1.Reference{Name: "shape"}, Count: count}}
	w := clustertest.New(t, interceptor.Funcs{}, template, request, clustertest.Pool("general"))
	config := w.Cluster.Config
	config.Requests = requests
	w.Cluster = cluster.New(config)
	return w, provision.New(provision.Config{
		Cluster: w.Cluster, Recorder: w.Recorder, Metrics: report.NewMetrics(prometheus.NewRegistry(), "test"),
		Requests: &provisioningrequest.Writer{Cluster: w.Cluster},
	})
}

func conditionsOf(w *clustertest.World) []metav1.Condition {
	var o autoscalingv1.ProvisioningRequest
	w.Must(w.Client.Get(w, client.ObjectKey{Namespace: "default", Name: "r"}, &o))
	return o.Status.Conditions
}

func claims(w *clustertest.World) int {
	var list v1.NodeClaimList
	w.Must(w.Client.List(w, &list))
	return len(list.Items)
}

func TestMachinesForARequestAreStartedOnce(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, true, autoscalingv1.BestEffortAtomic, 2)
	w.Must(r.Reconcile(w))
	first := claims(w)
	for range 3 { // machines are on their way
		w.Clock.Step(time.Second)
		w.Must(r.Reconcile(w))
	}
	if n := claims(w); n != first || n == 0 || n > 2 {
		t.Errorf("%d claims, %d at first", n, first)
	}
	conditions := conditionsOf(w)
	c := apimeta.FindStatusCondition(conditions, autoscalingv1.ConditionProvisioned)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != autoscalingv1.CapacityIsStarting || !apimeta.IsStatusConditionTrue(conditions, autoscalingv1.ConditionAccepted) {
		t.Errorf("%+v", conditions)
	}
}

func TestNothingIsStartedForARequestThatOnlyChecks(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, true, autoscalingv1.CheckCapacity, 2)
	w.Must(r.Reconcile(w))
	c := apimeta.FindStatusCondition(conditionsOf(w), autoscalingv1.ConditionProvisioned)
	if claims(w) != 0 || c == nil || c.Reason != autoscalingv1.CapacityIsNotFound {
		t.Errorf("%d claims, %+v", claims(w), c)
	}
}

func TestRequestsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	for class, requests := range map[string]bool{"queued-provisioning.gke.io": true, autoscalingv1.BestEffortAtomic: false} {
		w, r := newWorld(t, requests, class, 2)
		w.Must(r.Reconcile(w))
		if c := conditionsOf(w); claims(w) != 0 || len(c) != 0 {
			t.Errorf("class %s, acted on: %t: %d claims, %+v", class, requests, claims(w), c)
		}
	}
}
