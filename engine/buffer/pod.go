package buffer

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// shape returns a pod of the template with the lowest priority, so that all other pods have precedence. It may be removed from its machine at
// any time.
func (b *Buffer) shape(s *engine.Snapshot, template *corev1.PodTemplateSpec) *corev1.Pod {
	o := b.Object
	b.template, b.ranges, b.classes = template, rangesOf(s, o.Namespace), s.RuntimeClasses
	pod := StandIn(s, o.Namespace, template)
	pod.CreationTimestamp, pod.ResourceVersion = o.CreationTimestamp, o.ResourceVersion
	pod.Annotations = map[string]string{
		v1.BufferPodAnnotationKey: "true", v1.BufferNameAnnotationKey: o.Name, v1.BufferNamespaceAnnotationKey: o.Namespace,
	}
	pod.Spec.Priority = new(int32(math.MinInt32))
	return pod
}

// rangesOf returns the LimitRanges of the namespace.
func rangesOf(s *engine.Snapshot, namespace string) (out []*corev1.LimitRange) {
	for _, r := range s.LimitRanges {
		if r.Namespace == namespace {
			out = append(out, r)
		}
	}
	return out
}

// StandIn returns a pending pod of the template, with the defaults that the API server adds in the namespace. It represents room. The caller
// sets its name.
func StandIn(s *engine.Snapshot, namespace string, template *corev1.PodTemplateSpec) *corev1.Pod {
	template = template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: template.Labels},
		Spec:       template.Spec,
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
		}},
	}
	metav1.SetMetaDataLabel(&pod.ObjectMeta, kube.BufferPodLabel, "true")
	spec := &pod.Spec
	spec.NodeName, spec.SchedulingGates = "", nil
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
	kube.ApplyRuntimeClass(spec, s.RuntimeClasses)
	kube.DefaultRequests(pod, rangesOf(s, namespace))
	for _, selector := range selectors(spec) {
		// The expression is true for all pods. It makes the selector match existing pods and the pods of buffers.
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: kube.BufferPodLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"never"},
		})
	}
	return pod
}

// selectors lists the pod's selectors of other pods. It leaves out selectors that match no pod or all pods.
func selectors(spec *corev1.PodSpec) []*metav1.LabelSelector {
	var out []*metav1.LabelSelector
	term := func(t *corev1.PodAffinityTerm) { out = append(out, t.LabelSelector) }
	if a := spec.Affinity; a != nil {
		if a := a.PodAffinity; a != nil {
			for i := range a.RequiredDuringSchedulingIgnoredDuringExecution {
				term(&a.RequiredDuringSchedulingIgnoredDuringExecution[i])
			}
			for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
				term(&a.PreferredDuringSchedulingIgnoredDuringExecution[i].PodAffinityTerm)
			}
		}
		if a := a.PodAntiAffinity; a != nil {
			for i := range a.RequiredDuringSchedulingIgnoredDuringExecution {
				term(&a.RequiredDuringSchedulingIgnoredDuringExecution[i])
			}
			for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
				term(&a.PreferredDuringSchedulingIgnoredDuringExecution[i].PodAffinityTerm)
			}
		}
	}
	for i := range spec.TopologySpreadConstraints {
		out = append(out, spec.TopologySpreadConstraints[i].LabelSelector)
	}
	return slices.DeleteFunc(out, func(s *metav1.LabelSelector) bool { return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 })
}

// Pods makes the pods of buffers and keeps them, so that pods for the same room are the same objects in each pass. The zero value is empty. Only
// one goroutine may use it.
type Pods struct {
	waiting map[types.UID]*made
	bound   map[boundTo]*corev1.Pod
}

// made holds the pods of one buffer.
type made struct {
	of   *Buffer
	pods []*corev1.Pod
}

// alike reports whether the pods of both buffers have the same shape, because they are made from the same objects.
func alike(a, b *Buffer) bool {
	return a.Object == b.Object && a.template == b.template && slices.Equal(a.ranges, b.ranges) && slices.Equal(a.classes, b.classes)
}

type boundTo struct {
	pod  *corev1.Pod
	node string
}

// Of returns the pending pods of the buffers.
func (m *Pods) Of(buffers []*Buffer) []*corev1.Pod {
	known := m.waiting
	m.waiting = make(map[types.UID]*made, len(buffers))
	var out []*corev1.Pod
	for _, b := range buffers {
		if b.Reason != "" || b.Size == 0 {
			continue
		}
		x := known[b.Object.UID]
		if x == nil || !alike(x.of, b) {
			x = &made{of: b}
		}
		for i := len(x.pods); i < b.Size; i++ {
			pod := *x.of.sample
			pod.Name, pod.UID = fmt.Sprintf("capacity-buffer-%s-%d", b.Object.Name, i), types.UID(fmt.Sprintf("%s %s-%d", b.Object.UID, v1.BufferPodAnnotationKey, i))
			x.pods = append(x.pods, &pod)
		}
		m.waiting[b.Object.UID] = x
		out = append(out, x.pods[:b.Size]...)
	}
	return out
}

// Bind returns a copy of the pod that runs on the node.
func (m *Pods) Bind(pod *corev1.Pod, node string) *corev1.Pod {
	if bound := m.bound[boundTo{pod, node}]; bound != nil {
		return bound
	}
	bound := *pod
	bound.Spec.NodeName = node
	bound.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: pod.CreationTimestamp},
	}}
	if m.bound == nil {
		m.bound = map[boundTo]*corev1.Pod{}
	}
	m.bound[boundTo{pod, node}] = &bound
	return &bound
}

// Forget drops the bound pods that are not in kept.
func (m *Pods) Forget(kept []*corev1.Pod) {
	if len(m.bound) <= 2*len(kept) {
		return
	}
	is := make(map[*corev1.Pod]bool, len(kept))
	for _, pod := range kept {
		is[pod] = true
	}
	for key, pod := range m.bound {
		if !is[pod] {
			delete(m.bound, key)
		}
	}
}
