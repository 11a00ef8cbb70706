package explore

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/autoscalingv1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

// This file makes users create and delete a CapacityBuffer, and checks that no machine is started for the room of a deleted buffer.

// bufferName is the name of the buffer and of its template.
const bufferName = "room"

// stageBuffer creates the template of the buffer's pods.
func (w *world) stageBuffer() {
	t := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: bufferName}}
	t.Template.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(pick(w, "900m", "1500m", "3")),
	}}}}
	_, _ = w.api.create(t)
}

// toggleBuffer creates the buffer, or deletes it if it exists.
func (w *world) toggleBuffer() {
	if b := w.buffer(); b != nil {
		w.deleteBuffer()
		return
	}
	b := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: bufferName}}
	n := int32(1 + w.draw(4))
	b.Spec.PodTemplateRef, b.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: bufferName}, &n
	_, _ = w.api.create(b)
}

func (w *world) buffer() *autoscalingv1beta1.CapacityBuffer {
	return find[*autoscalingv1beta1.CapacityBuffer](w.api, "default/"+bufferName)
}

func (w *world) deleteBuffer() {
	if b := w.buffer(); b != nil {
		_ = w.api.remove(w.api.shelfOf(b), keyOf(b), deletion{uid: b.UID})
		w.scene.unbuffered = w.clock.Now()
	}
}

// wantNothing deletes the buffer and scales all workloads to 0.
func (w *world) wantNothing() {
	w.deleteBuffer()
	none := int32(0)
	for _, o := range all[*appsv1.ReplicaSet](w.api) {
		update(w.api, o, func(o *appsv1.ReplicaSet) { o.Spec.Replicas = &none })
	}
	for _, o := range all[*appsv1.StatefulSet](w.api) {
		update(w.api, o, func(o *appsv1.StatefulSet) { o.Spec.Replicas = &none })
	}
}

// checkRoom: if a machine is started for no pod, the buffer exists or existed a moment ago.
func (l *laws) checkRoom(actor string, claim *v1.NodeClaim) {
	if actor != provisioning || len(kube.PlannedPods(claim)) > 0 || l.w.buffer() != nil {
		return
	}
	if since := l.w.clock.Since(l.w.scene.unbuffered); since > l.w.scene.lag+taskLag+time.Second {
		l.broken(lawRoom, "NodeClaim %s is for no pod, and the buffer has been gone for %s", claim.Name, since)
	}
}
