package endtoend_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tenon.sh/api/autoscalingv1"
	v1 "tenon.sh/api/v1"
)

// TestARequestIsProvisionedWholeAndUsed asks for room as Kueue does, for more than the pool's limit and then for what it allows, and has
// the pods come.
func TestARequestIsProvisionedWholeAndUsed(t *testing.T) {
	w := newWorld(t)
	w.defineRequests()
	w.start("--feature-gates=ProvisioningRequest=true")
	w.pool("batch", func(p *v1.NodePool) {
		p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(0)
		p.Spec.Limits = v1.Limits{corev1.ResourceCPU: resource.MustParse("10")}
	})
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "train"}}
	template.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "a", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("900m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
	}}}
	w.must(w.Create(w, template))
	t.Cleanup(func() { w.must(client.IgnoreNotFound(w.Delete(w, template))) })

	w.request("large", autoscalingv1.BestEffortAtomic, 40)
	w.requestSays("large", autoscalingv1.ConditionProvisioned, metav1.ConditionFalse, autoscalingv1.CapacityIsNotFound)
	w.request("check", autoscalingv1.CheckCapacity, 1)
	w.requestSays("check", autoscalingv1.ConditionProvisioned, metav1.ConditionFalse, autoscalingv1.CapacityIsNotFound)
	if n := len(w.claims()); n != 0 {
		t.Errorf("%d machines for requests that cannot be met", n)
	}
	w.forget("check")
	w.request("train", autoscalingv1.BestEffortAtomic, 3)
	w.requestSays("train", autoscalingv1.ConditionProvisioned, metav1.ConditionTrue, autoscalingv1.CapacityIsBought)
	machines := len(w.claims())

	for i := range 3 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("train-%d", i), Labels: map[string]string{"app": "train"},
			Annotations: map[string]string{autoscalingv1.ConsumeAnnotationKey: "train", autoscalingv1.ClassAnnotationKey: autoscalingv1.BestEffortAtomic},
		}, Spec: *template.Template.Spec.DeepCopy()}
		w.must(w.Create(w, pod))
		t.Cleanup(func() { w.must(client.IgnoreNotFound(w.Delete(w, pod, client.GracePeriodSeconds(0)))) })
	}
	w.running(3, time.Minute)
	w.requestSays("train", autoscalingv1.ConditionBookingExpired, metav1.ConditionTrue, autoscalingv1.CapacityBookingSpent)
	if n := len(w.claims()); n != machines || n == 0 {
		t.Errorf("%d machines, %d before the pods came", n, machines)
	}
}

// defineRequests has the API server serve ProvisioningRequests.
func (w *world) defineRequests() {
	w.Helper()
	data, err := os.ReadFile("testdata/provisioningrequest.yaml")
	w.must(err)
	crd := &unstructured.Unstructured{}
	w.must(yaml.Unmarshal(data, &crd.Object))
	w.must(w.Create(w, crd))
	w.Cleanup(func() { w.must(client.IgnoreNotFound(w.Delete(w, crd))) })
	w.until(time.Minute, func() (bool, string) {
		err := w.List(w, &autoscalingv1.ProvisioningRequestList{})
		return err == nil, fmt.Sprint("ProvisioningRequests are not served: ", err)
	})
}

// request makes a ProvisioningRequest for so many pods of the template "train".
func (w *world) request(name, class string, count int32) {
	w.Helper()
	o := &autoscalingv1.ProvisioningRequest{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	o.Spec.ProvisioningClassName = class
	o.Spec.PodSets = []autoscalingv1.PodSet{{PodTemplateRef: autoscalingv1.Reference{Name: "train"}, Count: count}}
	w.must(w.Create(w, o))
}

// forget deletes the request.
func (w *world) forget(name string) {
	w.Helper()
	w.must(w.Delete(w, &autoscalingv1.ProvisioningRequest{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}))
}

// requestSays waits until the request has the condition.
func (w *world) requestSays(name, kind string, status metav1.ConditionStatus, reason string) {
	w.Helper()
	w.until(time.Minute, func() (bool, string) {
		var o autoscalingv1.ProvisioningRequest
		w.must(w.Get(w, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, &o))
		c := apimeta.FindStatusCondition(o.Status.Conditions, kind)
		return c != nil && c.Status == status && c.Reason == reason, fmt.Sprintf("ProvisioningRequest %s: %+v", name, o.Status.Conditions)
	})
}
