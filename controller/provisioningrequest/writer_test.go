package provisioningrequest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	return newWorldWith(t, interceptor.Funcs{}, requests, class, count)
}

func newWorldWith(t *testing.T, calls interceptor.Funcs, requests bool, class string, count int32) (*clustertest.World, *provision.Reconciler) {
	t.Helper()
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shape"}}
	template.Template.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("900m")}}}}
	request := &autoscalingv1.ProvisioningRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r", UID: "r", CreationTimestamp: metav1.Now()}}
	request.Spec.ProvisioningClassName = class
	request.Spec.PodSets = []autoscalingv1.PodSet{{PodTemplateRef: autoscalingv1.Reference{Name: "shape"}, Count: count}}
	w := clustertest.New(t, calls, template, request, clustertest.Pool("general"))
	config := w.Cluster.Config
	config.Requests = requests
	w.Cluster = cluster.New(config)
	return w, provision.New(provision.Config{
		Cluster: w.Cluster, Recorder: w.Recorder, Metrics: report.NewMetrics(prometheus.NewRegistry(), "test"),
		Requests: &provisioningrequest.Writer{Cluster: w.Cluster, Recorder: w.Recorder},
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

// Somebody who looks at a request in kubectl describe sees what it waits for and what to do, once in five minutes, and each change once.
func TestRequestsAreToldOf(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, true, autoscalingv1.CheckCapacity, 1)
	for range 4 {
		w.Must(r.Reconcile(w))
		w.Clock.Step(10 * time.Second)
	}
	if got := w.Events(); got["ProvisioningRequest Accepted"] != 1 || got["ProvisioningRequest CapacityIsNotFound"] != 1 {
		t.Errorf("%v", got)
	}
	w.Clock.Step(3 * time.Minute)
	w.Must(r.Reconcile(w))
	if got := w.Events(); got["ProvisioningRequest CapacityIsNotFound"] != 1 {
		t.Errorf("three minutes later: %v", got)
	}
	w.Clock.Step(2 * time.Minute)
	w.Must(r.Reconcile(w))
	if got := w.Events(); got["ProvisioningRequest Accepted"] != 1 || got["ProvisioningRequest CapacityIsNotFound"] != 2 {
		t.Errorf("five minutes later: %v", got)
	}
	var list corev1.EventList
	w.Must(w.Client.List(w, &list))
	for _, e := range list.Items {
		if warning := e.Type == corev1.EventTypeWarning; warning != (e.Reason == autoscalingv1.CapacityIsNotFound) {
			t.Errorf("%s %s: %s", e.Type, e.Reason, e.Message)
		}
		if e.Reason == autoscalingv1.CapacityIsNotFound && !strings.Contains(e.Message, "nodes have room for 0 of 1 pod, and no machine is started for requests of this class; it is tried again; "+
			"to do: make room, or a request of class best-effort-atomic-scale-up.autoscaling.x-k8s.io") {
			t.Error(e.Message)
		}
	}
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("9")}
	w.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Capacity: room, Allocatable: room,
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
	w.Clock.Step(time.Minute)
	w.Must(r.Reconcile(w))
	w.Must(r.Reconcile(w))
	if got := w.Events(); got["ProvisioningRequest CapacityIsFound"] != 1 {
		t.Errorf("with a node: %v", got)
	}
	w.Clock.Step(10 * time.Minute)
	w.Must(r.Reconcile(w))
	w.Must(r.Reconcile(w))
	if got := w.Events(); got["ProvisioningRequest CapacityReservationTimeExpired"] != 1 || got["ProvisioningRequest CapacityIsNotFound"] != 2 {
		t.Errorf("after ten minutes: %v", got)
	}
}

// What could not be written is not told.
func TestRequestsAreToldOfOnceTheirStatusSaysIt(t *testing.T) {
	t.Parallel()
	refuses := true
	w, r := newWorldWith(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
		if _, ok := o.(*autoscalingv1.ProvisioningRequest); ok && refuses {
			return apierrors.NewForbidden(autoscalingv1.GroupVersion.WithResource("provisioningrequests").GroupResource(), o.GetName(), errors.New("no"))
		}
		return c.SubResource(sub).Patch(ctx, o, patch, opts...)
	}}, true, autoscalingv1.BestEffortAtomic, 1)
	if err := r.Reconcile(w); err == nil || len(w.Events()) != 0 {
		t.Errorf("refused: %v, %v", err, w.Events())
	}
	refuses = false
	w.Must(r.Reconcile(w))
	if got := w.Events(); got["ProvisioningRequest Accepted"] != 1 || got["ProvisioningRequest CapacityIsStarting"] != 1 {
		t.Errorf("%v", got)
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
