package buffer

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/autoscalingv1beta1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// MostPods is the largest number of pods of one buffer, so that a typing error does not start thousands of machines.
const MostPods = 10_000

// Buffer is a CapacityBuffer with the objects to which it refers.
type Buffer struct {
	Object *autoscalingv1beta1.CapacityBuffer
	// Size is the number of pods for which room is kept.
	Size int
	// PodTemplate is the template that spec.podTemplateRef names; nil if it names none.
	PodTemplate *corev1.PodTemplate
	// Reason and Message explain why the buffer keeps no room although it should. Both are empty if there is no such problem.
	Reason, Message string
	// Quota names the ResourceQuota that makes the buffer smaller than its spec. It is "" if there is none.
	Quota string

	// Limit is the resource whose limit for all buffers together makes this buffer smaller; empty for none.
	Limit corev1.ResourceName

	// sample is the shape of the buffer's pods, made from template, ranges and classes; nil if there is a Reason.
	sample   *corev1.Pod
	template *corev1.PodTemplateSpec
	ranges   []*corev1.LimitRange
	classes  []*nodev1.RuntimeClass
}

// Followed reports whether the buffer's strategy is to keep running machines. Other programs handle other strategies.
func Followed(b *autoscalingv1beta1.CapacityBuffer) bool {
	s := b.Spec.ProvisioningStrategy
	return s == nil || *s == "" || *s == autoscalingv1beta1.ActiveCapacity
}

// Resolve reads the buffers of a snapshot, sorted by namespace and name. It leaves out buffers of other strategies and buffers that are being
// deleted. The limits for all buffers are given to the oldest first, so that a new buffer takes nothing from older ones.
func Resolve(s *engine.Snapshot, limits corev1.ResourceList) []*Buffer {
	var out []*Buffer
	for _, o := range s.CapacityBuffers {
		if Followed(o) && o.DeletionTimestamp == nil {
			out = append(out, &Buffer{Object: o})
		}
	}
	slices.SortFunc(out, func(a, b *Buffer) int {
		return cmp.Or(cmp.Compare(a.Object.Namespace, b.Object.Namespace), cmp.Compare(a.Object.Name, b.Object.Name))
	})
	quotas := readQuotas(s)
	for _, b := range out {
		b.resolve(s)
		if b.Reason == "" {
			b.Size, b.Quota = quotas.take(b.sample, b.Size)
		}
	}
	left := limits.DeepCopy()
	byAge := slices.SortedStableFunc(slices.Values(out), func(a, b *Buffer) int {
		return a.Object.CreationTimestamp.Compare(b.Object.CreationTimestamp.Time)
	})
	for _, b := range byAge {
		if b.Reason == "" && len(limits) > 0 {
			b.bound(left)
		}
	}
	return out
}

// bound reduces the buffer's size to the rest of the limits for all buffers, and subtracts its requests from the rest.
func (b *Buffer) bound(left corev1.ResourceList) {
	requests := kube.PodRequests(b.sample)
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if most, binds := fits(corev1.ResourceList{name: left[name]}, requests); binds && most < b.Size {
			b.Size, b.Limit, b.Quota = most, name, ""
		}
	}
	spend(left, requests, b.Size)
}

// spend subtracts the requests of that many pods.
func spend(left, requests corev1.ResourceList, pods int) {
	for name, need := range requests {
		have, limited := left[name]
		if !limited {
			continue
		}
		need = need.DeepCopy()
		need.Mul(int64(pods))
		have.Sub(need)
		left[name] = have
	}
}

// resolve determines the shape of the buffer's pods, and the number of pods in its spec.
func (b *Buffer) resolve(s *engine.Snapshot) {
	spec := &b.Object.Spec
	var template *corev1.PodTemplateSpec
	replicas := 0
	switch {
	case spec.PodTemplateRef != nil && spec.ScalableRef != nil:
		b.refuse(autoscalingv1beta1.ResolutionFailed, "spec.podTemplateRef and spec.scalableRef are both set: leave one of them out")
		return
	case spec.PodTemplateRef != nil:
		b.PodTemplate = named(s.PodTemplates, b.Object.Namespace, spec.PodTemplateRef.Name)
		if b.PodTemplate == nil {
			b.refuse(autoscalingv1beta1.PodTemplateNotFound, fmt.Sprintf("there is no PodTemplate %s in namespace %s: make one, or name another in spec.podTemplateRef", spec.PodTemplateRef.Name, b.Object.Namespace))
			return
		}
		template = &b.PodTemplate.Template
	case spec.ScalableRef != nil:
		if template, replicas = b.workload(s, spec.ScalableRef); template == nil {
			return
		}
	default:
		b.refuse(autoscalingv1beta1.ResolutionFailed, "spec names no pods: set spec.podTemplateRef or spec.scalableRef")
		return
	}
	b.sample = b.shape(s, template)
	b.Size = b.size(replicas)
}

func (b *Buffer) refuse(reason, message string) { b.Reason, b.Message = reason, message }

// workload returns the template and the replicas of the workload that the reference names. It returns nil if they cannot be read.
func (b *Buffer) workload(s *engine.Snapshot, ref *autoscalingv1beta1.ScalableRef) (*corev1.PodTemplateSpec, int) {
	if ref.APIGroup != "" && ref.APIGroup != "apps" {
		b.refuse(autoscalingv1beta1.ResolutionFailed, fmt.Sprintf("spec.scalableRef.apiGroup is %q: workloads of the group apps can be named", ref.APIGroup))
		return nil, 0
	}
	var template *corev1.PodTemplateSpec
	var replicas *int32
	switch ref.Kind {
	case "Deployment":
		if d := named(s.Deployments, b.Object.Namespace, ref.Name); d != nil {
			template, replicas = &d.Spec.Template, d.Spec.Replicas
		}
	case "StatefulSet":
		if d := named(s.StatefulSets, b.Object.Namespace, ref.Name); d != nil {
			template, replicas = &d.Spec.Template, d.Spec.Replicas
		}
	case "ReplicaSet":
		d := named(s.ReplicaSets, b.Object.Namespace, ref.Name)
		if d != nil && metav1.GetControllerOfNoCopy(d) != nil {
			owner := metav1.GetControllerOfNoCopy(d)
			b.refuse(autoscalingv1beta1.ResolutionFailed, fmt.Sprintf("ReplicaSet %s belongs to %s %s, whose next change makes another one: name that in spec.scalableRef", ref.Name, owner.Kind, owner.Name))
			return nil, 0
		}
		if d != nil {
			template, replicas = &d.Spec.Template, d.Spec.Replicas
		}
	default:
		b.refuse(autoscalingv1beta1.ResolutionFailed, fmt.Sprintf("spec.scalableRef.kind is %q: it can be Deployment, StatefulSet or ReplicaSet", ref.Kind))
		return nil, 0
	}
	if template == nil {
		b.refuse(autoscalingv1beta1.ScalableRefNotFound, fmt.Sprintf("there is no %s %s in namespace %s: make one, or name another in spec.scalableRef", ref.Kind, ref.Name, b.Object.Namespace))
		return nil, 0
	}
	if replicas == nil {
		return template, 1 // the API server's default
	}
	return template, int(*replicas)
}

func named[T metav1.Object](list []T, namespace, name string) (found T) {
	i := slices.IndexFunc(list, func(o T) bool { return o.GetName() == name && o.GetNamespace() == namespace })
	if i < 0 {
		return found
	}
	return list[i]
}

// size returns the larger of the replicas and the percentage, at most what the limits allow. If only limits are set, they determine the size. A
// percentage is rounded up.
func (b *Buffer) size(replicas int) int {
	spec := &b.Object.Spec
	n, asked := 0, false
	if spec.Replicas != nil {
		n, asked = int(max(*spec.Replicas, 0)), true
	}
	if spec.Percentage != nil && spec.ScalableRef != nil {
		n, asked = max(n, int((int64(max(*spec.Percentage, 0))*int64(max(replicas, 0))+99)/100)), true
	}
	if most, binds := fits(spec.Limits, kube.PodRequests(b.sample)); binds && (n > most || !asked) {
		n = most
	}
	return min(n, MostPods)
}

// fits returns the number of pods with the requests that the limits allow. binds is false if the limits name no resource that the pods request.
func fits(limits, requests corev1.ResourceList) (most int, binds bool) {
	for name, limit := range limits {
		need, asked := requests[name]
		if !asked || need.Sign() <= 0 {
			continue
		}
		n := int(min(max(limit.AsApproximateFloat64()/need.AsApproximateFloat64()+1e-9, 0), math.MaxInt32))
		if !binds || n < most {
			most, binds = n, true
		}
	}
	return most, binds
}
