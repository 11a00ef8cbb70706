package capacitybuffer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/api/autoscalingv1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/capacitybuffer"
	"tenon.sh/controller/provision"
	"tenon.sh/report"

	"github.com/prometheus/client_golang/prometheus"
)

func bufferOf(template string, replicas int32) *autoscalingv1beta1.CapacityBuffer {
	b := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b", UID: "b"}}
	b.Spec.PodTemplateRef, b.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: template}, &replicas
	return b
}

func templateOf(cpu string) *corev1.PodTemplate {
	t := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shape", Generation: 3}}
	t.Template.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	return t
}

// newWorld has a pool and the objects, and a provisioner that acts on buffers.
func newWorld(t *testing.T, objects ...client.Object) (*clustertest.World, *provision.Reconciler) {
	t.Helper()
	w := clustertest.New(t, interceptor.Funcs{}, append(objects, clustertest.Pool("general"))...)
	return w, newProcess(w)
}

// newProcess is a provisioner that remembers nothing.
func newProcess(w *clustertest.World) *provision.Reconciler {
	config := w.Cluster.Config
	config.Buffers = true
	w.Cluster = cluster.New(config)
	metrics := report.NewMetrics(prometheus.NewRegistry(), "test")
	return provision.New(provision.Config{
		Cluster: w.Cluster, Recorder: w.Recorder, Metrics: metrics,
		Buffers: &capacitybuffer.Writer{Cluster: w.Cluster, Recorder: w.Recorder, Metrics: metrics},
	})
}

func statusOf(w *clustertest.World) autoscalingv1beta1.CapacityBufferStatus {
	var b autoscalingv1beta1.CapacityBuffer
	w.Must(w.Client.Get(w, client.ObjectKey{Namespace: "default", Name: "b"}, &b))
	return b.Status
}

func TestABufferIsFilledByMachinesOnce(t *testing.T) {
	t.Parallel()
	b := bufferOf("shape", 2)
	apimeta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{Type: v1.ConditionNotSupported, Status: metav1.ConditionTrue, Reason: "NotSupported"})
	w, r := newWorld(t, b, templateOf("900m"))
	for range 3 { // the second time, machines are on their way
		w.Must(r.Reconcile(w))
	}
	var claims v1.NodeClaimList
	w.Must(w.Client.List(w, &claims))
	if len(claims.Items) == 0 || len(claims.Items) > 2 {
		t.Fatalf("%d claims", len(claims.Items))
	}
	if claims.Items[0].Annotations[v1.PlannedPodsAnnotationKey] != "" {
		t.Errorf("the claim is said to be for pods that do not exist: %v", claims.Items[0].Annotations)
	}
	status := statusOf(w)
	ready, provisioning := apimeta.FindStatusCondition(status.Conditions, "ReadyForProvisioning"), apimeta.FindStatusCondition(status.Conditions, "Provisioning")
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.Reason != "Resolved" || *status.Replicas != 2 || *status.PodTemplateGeneration != 3 || status.PodTemplateRef.Name != "shape" {
		t.Errorf("%+v", status)
	}
	if provisioning == nil || provisioning.Status != metav1.ConditionFalse || provisioning.Reason != "RequiresNewCapacity" ||
		!strings.Contains(provisioning.Message, "of 2 pods, nodes have room for 0, machines that start for 2, and 0 have no place") || !strings.Contains(provisioning.Message, "in general") {
		t.Errorf("%+v", provisioning)
	}
	if len(status.Conditions) != 2 {
		t.Errorf("what was said before is still there: %+v", status.Conditions)
	}
}

// A process that ends between the purchase and the status of a buffer has bought: the next one buys nothing more, and says so.
func TestABufferIsFilledOnceThoughItsStatusCouldNotBeWritten(t *testing.T) {
	t.Parallel()
	down := true
	w := clustertest.New(t, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if _, ok := o.(*autoscalingv1beta1.CapacityBuffer); ok && down {
				return errors.New("the process ends here")
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}, bufferOf("shape", 2), templateOf("900m"), clustertest.Pool("general"))
	_ = newProcess(w).Reconcile(w)
	bought := func() int {
		var claims v1.NodeClaimList
		w.Must(w.Client.List(w, &claims))
		return len(claims.Items)
	}
	first := bought()
	if status := statusOf(w); first == 0 || len(status.Conditions) > 0 {
		t.Fatalf("%d machines were asked for, and the status is %+v", first, status)
	}
	down = false
	w.Must(newProcess(w).Reconcile(w))
	if n := bought(); n != first || len(statusOf(w).Conditions) == 0 {
		t.Errorf("%d machines were asked for, and then %d; the status is %+v", first, n, statusOf(w))
	}
}

func TestABufferThatCannotBeResolvedSaysSo(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, bufferOf("nix", 2))
	w.Must(r.Reconcile(w))
	status := statusOf(w)
	ready, provisioning := apimeta.FindStatusCondition(status.Conditions, "ReadyForProvisioning"), apimeta.FindStatusCondition(status.Conditions, "Provisioning")
	if ready == nil || ready.Reason != "PodTemplateNotFound" || ready.Status != metav1.ConditionFalse || provisioning == nil || provisioning.Reason != "NotReadyForProvisioning" || status.Replicas != nil {
		t.Errorf("%+v", status)
	}
	w.Must(w.Client.Create(w, func() client.Object { t := templateOf("1"); t.Name = "nix"; return t }()))
	w.Must(r.Reconcile(w))
	if ready := apimeta.FindStatusCondition(statusOf(w).Conditions, "ReadyForProvisioning"); ready.Reason != "Resolved" {
		t.Errorf("%+v", ready)
	}
}

func TestRoomThatHasNoPlaceSaysWhy(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, bufferOf("shape", 2), templateOf("5000"))
	w.Must(r.Reconcile(w))
	c := apimeta.FindStatusCondition(statusOf(w).Conditions, "Provisioning")
	if c == nil || c.Reason != "RequiresNewCapacity" || !strings.Contains(c.Message, "2 have no place: ") || !strings.Contains(c.Message, "cpu") {
		t.Errorf("%+v", c)
	}
}

func TestAQuotaThatBoundsABufferIsNamed(t *testing.T) {
	t.Parallel()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "few"}}
	q.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
	w, r := newWorld(t, bufferOf("shape", 2), templateOf("1"), q)
	limited := func() *metav1.Condition {
		w.Must(r.Reconcile(w))
		return apimeta.FindStatusCondition(statusOf(w).Conditions, "LimitedByQuotas")
	}
	if c := limited(); c == nil || c.Status != metav1.ConditionTrue || c.Reason != "ResourceQuotasAllocated" || !strings.Contains(c.Message, "ResourceQuota few lets no more than 1 pod be made") {
		t.Errorf("%+v", c)
	}
	w.Must(w.Client.Delete(w, q))
	if c := limited(); c == nil || c.Status != metav1.ConditionFalse || *statusOf(w).Replicas != 2 {
		t.Errorf("the quota is gone: %+v", c)
	}
}

func TestBuffersOfOtherStrategiesAreOthers(t *testing.T) {
	t.Parallel()
	b := bufferOf("nix", 2)
	b.Spec.ProvisioningStrategy = new("example.com/other")
	b.Status.Replicas = new(int32(7))
	w, r := newWorld(t, b)
	w.Must(r.Reconcile(w))
	if status := statusOf(w); *status.Replicas != 7 || len(status.Conditions) > 0 || *status.ProvisioningStrategy != "example.com/other" {
		t.Errorf("%+v", status)
	}
}

func TestALimitOfAllBuffersIsNamed(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, bufferOf("shape", 2), templateOf("1"))
	look := func(limit string) (provisioning, limited *metav1.Condition) {
		r.Options.BufferLimits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}
		w.Must(r.Reconcile(w))
		conditions := statusOf(w).Conditions
		return apimeta.FindStatusCondition(conditions, "Provisioning"), apimeta.FindStatusCondition(conditions, "LimitedByQuotas")
	}
	if _, c := look("1"); c == nil || c.Status != metav1.ConditionTrue || c.Reason != "BufferLimitsReached" || c.Message != "all buffers together may have no more cpu, by --buffer-limits of the controller: room is kept for no more than 1 pod" {
		t.Errorf("%+v", c)
	}
	if p, c := look("0"); c.Reason != "BufferLimitsReached" || p.Reason != "BufferEmpty" || p.Message != "all buffers together may have no more cpu" {
		t.Errorf("%+v, %+v", p, c)
	}
	if _, c := look("9"); c.Status != metav1.ConditionFalse || *statusOf(w).Replicas != 2 {
		t.Errorf("there is enough: %+v", c)
	}
}
