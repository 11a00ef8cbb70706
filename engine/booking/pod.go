package booking

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/api/schedulingv1alpha3"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/buffer"
	"tenon.sh/engine/kube"
)

// groupPrefix begins the names of the PodGroups that plans use for requests. No PodGroup of a cluster can have such a name.
const groupPrefix = "ProvisioningRequest "

// GroupName returns the name, with the namespace, of the PodGroup in which the request's pods are planned.
func (r *Request) GroupName() string { return r.Object.Namespace + "/" + groupPrefix + r.Object.Name }

// Group returns the PodGroup because of which the request's pods are placed together or not at all.
func (r *Request) Group() *schedulingv1alpha3.PodGroup {
	o := r.Object
	return &schedulingv1alpha3.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: groupPrefix + o.Name, UID: o.UID, CreationTimestamp: o.CreationTimestamp},
		Spec: schedulingv1alpha3.PodGroupSpec{SchedulingPolicy: schedulingv1alpha3.SchedulingPolicy{
			Gang: &schedulingv1alpha3.GangSchedulingPolicy{MinCount: int32(r.Size)},
		}},
	}
}

// Pods makes the pods of requests and keeps them, so that the same pods are the same objects in each pass. The zero value is empty. Only one
// goroutine may use it.
type Pods struct {
	last, next map[types.UID]*made
	bound      buffer.Pods
}

// made holds the pods of one request, by set.
type made struct {
	phase     Phase
	templates []*corev1.PodTemplate
	pods      [][]*corev1.Pod
}

// Begin starts a pass. It drops the pods of requests for which Of was not called in the last pass.
func (m *Pods) Begin() { m.last, m.next = m.next, map[types.UID]*made{} }

// Of returns the request's pods that have no node yet. Pods for which room is held have the highest priority.
func (m *Pods) Of(r *Request) []*corev1.Pod {
	fresh := &made{phase: r.Phase, pods: make([][]*corev1.Pod, len(r.sets))}
	for _, set := range r.sets {
		fresh.templates = append(fresh.templates, set.template)
	}
	x := m.next[r.Object.UID]
	if x == nil {
		x = m.last[r.Object.UID]
	}
	if x == nil || x.phase != r.Phase || !slices.Equal(x.templates, fresh.templates) {
		x = fresh
	}
	m.next[r.Object.UID] = x
	var out []*corev1.Pod
	for i, set := range r.sets {
		for n := len(x.pods[i]); n < set.left; n++ {
			x.pods[i] = append(x.pods[i], r.pod(i, n))
		}
		out = append(out, x.pods[i][:set.left]...)
	}
	return out
}

// pod returns a pod that represents the nth pod of a set.
func (r *Request) pod(set, n int) *corev1.Pod {
	o, pod := r.Object, *r.sets[set].sample
	pod.Namespace, pod.CreationTimestamp = o.Namespace, o.CreationTimestamp
	pod.Name, pod.UID = fmt.Sprintf("provisioning-request-%s-%d-%d", o.Name, set, n), types.UID(fmt.Sprintf("%s booking-%d-%d", o.UID, set, n))
	pod.Annotations = map[string]string{kube.RequestNameAnnotation: o.Name, v1.DoNotDisruptAnnotationKey: "true"}
	if r.Phase == Booked {
		pod.Spec.Priority, pod.Spec.SchedulingGroup = new(int32(math.MaxInt32)), nil
	} else {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new(groupPrefix + o.Name)}
	}
	return &pod
}

// Bind returns a copy of the pod that runs on the node.
func (m *Pods) Bind(pod *corev1.Pod, node string) *corev1.Pod { return m.bound.Bind(pod, node) }

// Forget drops the bound pods that are not in kept.
func (m *Pods) Forget(kept []*corev1.Pod) { m.bound.Forget(kept) }

// consumes returns the name of the request whose room the pod uses. It returns "" if there is none.
func consumes(pod *corev1.Pod) string {
	if name := pod.Annotations[autoscalingv1.ConsumeAnnotationKey]; name != "" {
		return name
	}
	return pod.Annotations[autoscalingv1.OlderConsumeAnnotationKey]
}

// Holds describes, for each request, why no machine is started for its pods. The nil value has no requests.
type Holds map[types.NamespacedName]string

// HoldsOf returns the requests for whose pods no machine is started.
func HoldsOf(s *engine.Snapshot) Holds {
	var out Holds
	for _, o := range s.ProvisioningRequests {
		text := ""
		switch phase := PhaseOf(o); {
		case !Followed(o):
			continue
		case phase == Seeking:
			text = "has no room yet"
		case phase == Booked && s.Now.Before(bookedUntil(o)):
			text = "has room until " + engine.ClockText(bookedUntil(o))
		case phase == Ended && isFailed(o):
			text = "has failed: make another one"
		default:
			continue // its pods are planned like ordinary pods
		}
		if out == nil {
			out = Holds{}
		}
		out[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = text
	}
	return out
}

// Of returns the reason for which no machine is started for the pod; the zero value if there is none.
func (h Holds) Of(pod *corev1.Pod) engine.Reason {
	if len(h) == 0 {
		return engine.Reason{}
	}
	name := consumes(pod)
	text := h[types.NamespacedName{Namespace: pod.Namespace, Name: name}]
	if name == "" || text == "" {
		return engine.Reason{}
	}
	return engine.Reason{Code: engine.ProvisioningRequested, Key: pod.Namespace + "/" + name, Have: text}
}
