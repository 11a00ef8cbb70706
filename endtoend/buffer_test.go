package endtoend_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/autoscalingv1beta1"
	v1 "tenon.sh/api/v1"
)

// TestPodsRunAtOnceInTheRoomOfABuffer keeps room without any pod, has pods take it, and takes the buffer away.
func TestPodsRunAtOnceInTheRoomOfABuffer(t *testing.T) {
	w := newWorld(t)
	w.start("--feature-gates=CapacityBuffer=true")
	w.pool("buffered", func(p *v1.NodePool) { p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(0) })
	room, template := w.newRoom()
	w.must(w.Create(w, room)) // its template comes later
	w.bufferSays(autoscalingv1beta1.ConditionReadyForProvisioning, metav1.ConditionFalse, autoscalingv1beta1.PodTemplateNotFound)
	w.must(w.Create(w, template))
	w.bufferSays(autoscalingv1beta1.ConditionProvisioning, metav1.ConditionTrue, autoscalingv1beta1.FitsExistingCapacity)
	before := map[string]bool{}
	for _, c := range w.claims() {
		before[c.Status.NodeName] = true
	}

	w.deploy("web", 3, "900m", "64Mi")
	w.running(3, time.Minute)
	var pods corev1.PodList
	w.must(w.List(w, &pods, client.MatchingLabels{"app": "web"}))
	for _, p := range pods.Items {
		if !before[p.Spec.NodeName] {
			t.Errorf("pod %s had to wait for the machine of %s, though there was room on %v", p.Name, p.Spec.NodeName, before)
		}
	}
	w.until(time.Minute, func() (bool, string) {
		n := len(w.claims())
		return n > len(before), fmt.Sprintf("%d machines: the room is not filled again", n)
	})
	w.bufferSays(autoscalingv1beta1.ConditionProvisioning, metav1.ConditionTrue, autoscalingv1beta1.FitsExistingCapacity)

	w.scale("web", 0)
	w.must(w.Delete(w, room))
	w.until(2*time.Minute, func() (bool, string) {
		return len(w.claims()) == 0, fmt.Sprintf("%d machines are left without pods and without a buffer", len(w.claims()))
	})
}

// A pool whose one machine only keeps room lets a pod that cannot run there have it.
func TestRoomAtALimitMakesWayForAPod(t *testing.T) {
	w := newWorld(t)
	w.start("--feature-gates=CapacityBuffer=true")
	w.pool("full", func(p *v1.NodePool) {
		p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(0)
		p.Spec.Limits = v1.Limits{v1.ResourceNodes: resource.MustParse("1")}
		p.Spec.Template.Spec.Requirements[1].Values = []string{"amd64", "arm64"}
	})
	room, template := w.newRoom()
	template.Template.Spec.NodeSelector = map[string]string{corev1.LabelArchStable: "amd64"}
	w.must(w.Create(w, template))
	w.must(w.Create(w, room))
	w.bufferSays(autoscalingv1beta1.ConditionProvisioning, metav1.ConditionTrue, autoscalingv1beta1.FitsExistingCapacity)

	w.deployWith("arm", 1, `{"nodeSelector":{"kubernetes.io/arch":"arm64"}}`)
	w.running(1, time.Minute)
	w.bufferSays(autoscalingv1beta1.ConditionProvisioning, metav1.ConditionFalse, autoscalingv1beta1.RequiresNewCapacity)
	w.until(time.Minute, func() (bool, string) {
		claims := w.claims()
		return len(claims) == 1 && claims[0].Labels[corev1.LabelArchStable] == "arm64", fmt.Sprintf("these machines are left: %+v", claims)
	})
}

// newRoom is a buffer for three pods, and its template, neither of which is created.
func (w *world) newRoom() (*autoscalingv1beta1.CapacityBuffer, *corev1.PodTemplate) {
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "room"}}
	template.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "a", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("900m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
	}}}
	room := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "room"}}
	room.Spec.PodTemplateRef, room.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: "room"}, new(int32(3))
	w.Cleanup(func() {
		for _, o := range []client.Object{room, template} {
			w.must(client.IgnoreNotFound(w.Delete(w, o)))
		}
	})
	return room, template
}

// bufferSays waits until the buffer has the condition.
func (w *world) bufferSays(kind string, status metav1.ConditionStatus, reason string) {
	w.Helper()
	w.until(time.Minute, func() (bool, string) {
		var b autoscalingv1beta1.CapacityBuffer
		w.must(w.Get(w, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "room"}, &b))
		c := apimeta.FindStatusCondition(b.Status.Conditions, kind)
		return c != nil && c.Status == status && c.Reason == reason, fmt.Sprintf("CapacityBuffer room: %+v", b.Status.Conditions)
	})
}
