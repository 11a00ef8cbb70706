package booking

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/engine"
	"tenon.sh/engine/buffer"
	"tenon.sh/engine/kube"
)

const (
	// heldFor is the time for which room is held for pods that do not come.
	heldFor = 10 * time.Minute
	// soughtFor is the time for which room is looked for if the request sets none.
	soughtFor = 7 * 24 * time.Hour
	// awaitTemplates is the time within which PodTemplates may be created after the request that names them.
	awaitTemplates = time.Minute
	mostPodSets    = 32
	// mostPods is the largest number of pods of all requests together. So an author of many requests cannot prevent plans for other pods.
	mostPods = 5 * buffer.MostPods
)

// Phase is the progress of a request.
type Phase int

// The phases, in their order.
const (
	Seeking Phase = iota // room is looked for
	Booked               // room is held
	Ended                // no room is looked for or held any more
)

// Request is a ProvisioningRequest with the objects to which it refers.
type Request struct {
	Object *autoscalingv1.ProvisioningRequest
	Phase  Phase
	// Reason and Message explain why the request cannot be served. Both are empty if it can. Waits is true if it may be served later.
	Reason, Message string
	Waits           bool
	// Size is the number of its pods without a node, while room is looked for or held.
	Size int

	sets    []podSet
	noRetry bool
	validTo time.Time
	until   time.Time // the time until which room is held
}

type podSet struct {
	template *corev1.PodTemplate
	sample   *corev1.Pod
	left     int // the number of pods without a node
}

// Name returns the request's namespace and name.
func (r *Request) Name() string { return r.Object.Namespace + "/" + r.Object.Name }

// Buys reports whether machines may be started for the request.
func (r *Request) Buys() bool {
	return r.Object.Spec.ProvisioningClassName == autoscalingv1.BestEffortAtomic
}

// Followed reports whether Tenon serves the request: it is of a known class and is not being deleted.
func Followed(o *autoscalingv1.ProvisioningRequest) bool {
	c := o.Spec.ProvisioningClassName
	return (c == autoscalingv1.CheckCapacity || c == autoscalingv1.BestEffortAtomic) && o.DeletionTimestamp == nil
}

// Resolve reads the requests of a snapshot in the order in which they are served, the oldest first. It leaves out requests of other classes and
// requests that are being deleted.
func Resolve(s *engine.Snapshot) []*Request {
	var out []*Request
	names := map[types.NamespacedName]*Request{}
	for _, o := range s.ProvisioningRequests {
		if Followed(o) {
			r := &Request{Object: o, Phase: PhaseOf(o)}
			out, names[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = append(out, r), r
		}
	}
	if len(out) == 0 {
		return nil
	}
	slices.SortFunc(out, func(a, b *Request) int {
		return cmp.Or(a.Object.CreationTimestamp.Compare(b.Object.CreationTimestamp.Time), strings.Compare(a.Name(), b.Name()))
	})
	come := map[*Request][]*corev1.Pod{}
	for _, pod := range s.Pods {
		if name := consumes(pod); name != "" && pod.Spec.NodeName != "" {
			if r := names[types.NamespacedName{Namespace: pod.Namespace, Name: name}]; r != nil {
				come[r] = append(come[r], pod)
			}
		}
	}
	total := 0
	for _, r := range out {
		if r.Phase == Ended {
			continue
		}
		if r.read(s); r.Reason != "" {
			continue
		}
		if r.count(come[r]); total+r.Size > mostPods {
			r.Reason, r.Waits = autoscalingv1.InvalidRequest, true
			r.Message = fmt.Sprintf("older requests are for %d pods and all together may be for %d: it waits until those have ended", total, mostPods)
			continue
		}
		total += r.Size
	}
	return out
}

// PhaseOf returns the request's phase, from its conditions.
func PhaseOf(o *autoscalingv1.ProvisioningRequest) Phase {
	is := func(kind string) bool { return apimeta.IsStatusConditionTrue(o.Status.Conditions, kind) }
	switch {
	case is(autoscalingv1.ConditionFailed), is(autoscalingv1.ConditionBookingExpired), is(autoscalingv1.ConditionCapacityRevoked):
		return Ended
	case is(autoscalingv1.ConditionProvisioned):
		return Booked
	}
	return Seeking
}

// read reads the spec.
func (r *Request) read(s *engine.Snapshot) {
	spec := &r.Object.Spec
	r.validTo = r.Object.CreationTimestamp.Add(soughtFor)
	if r.Phase == Booked {
		r.until = bookedUntil(r.Object)
	}
	r.readParameters()
	if n := len(spec.PodSets); n == 0 || n > mostPodSets {
		r.invalid("spec.podSets has %d entries: make a request with 1 to %d", n, mostPodSets)
	}
	total := 0
	for i, set := range spec.PodSets {
		if set.Count < 1 {
			r.invalid("spec.podSets[%d].count is %d: make a request with 1 or more", i, set.Count)
		}
		total += int(min(max(set.Count, 0), buffer.MostPods+1))
	}
	if total > buffer.MostPods {
		r.invalid("the request is for more than %d pods: make several", buffer.MostPods)
	}
	for i, set := range spec.PodSets {
		if r.Reason != "" {
			return
		}
		at := slices.IndexFunc(s.PodTemplates, func(t *corev1.PodTemplate) bool {
			return t.Name == set.PodTemplateRef.Name && t.Namespace == r.Object.Namespace
		})
		if at < 0 {
			r.Reason, r.Waits = autoscalingv1.FailedToCreatePods, s.Now.Before(r.Object.CreationTimestamp.Add(awaitTemplates))
			r.Message = fmt.Sprintf("there is no PodTemplate %q in namespace %s, which spec.podSets[%d].podTemplateRef names: make it, then a new request", set.PodTemplateRef.Name, r.Object.Namespace, i)
			return
		}
		sample := buffer.StandIn(s, r.Object.Namespace, &s.PodTemplates[at].Template)
		r.sets = append(r.sets, podSet{s.PodTemplates[at], sample, int(set.Count)})
	}
}

func (r *Request) invalid(format string, args ...any) {
	if r.Reason == "" {
		r.Reason, r.Message = autoscalingv1.InvalidRequest, fmt.Sprintf(format, args...)
	}
}

func (r *Request) readParameters() {
	for _, key := range kube.SortedKeys(r.Object.Spec.Parameters) {
		switch value := r.Object.Spec.Parameters[key]; {
		case key == autoscalingv1.NoRetry && !r.Buys():
			on, err := strconv.ParseBool(value)
			if err != nil {
				r.invalid("parameter %s is %q: make a request in which it is \"true\" or \"false\"", key, value)
			}
			r.noRetry = on
		case key == autoscalingv1.ValidUntilSeconds:
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil || n < 0 {
				r.invalid("parameter %s is %q: make a request in which it is a number of seconds", key, value)
			}
			r.validTo = r.Object.CreationTimestamp.Add(time.Duration(n) * time.Second)
		default:
			r.invalid("class %s has no parameter %q: make a request without it", r.Object.Spec.ProvisioningClassName, key)
		}
	}
}

// count subtracts the pods in `come` from the sets. It subtracts each pod from a set whose pods have the same requests. If no such set has pods
// left, it subtracts the pod from the first set that has.
func (r *Request) count(come []*corev1.Pod) {
	for _, pod := range come {
		requests := kube.PodRequests(pod)
		i := slices.IndexFunc(r.sets, func(x podSet) bool {
			return x.left > 0 && apiequality.Semantic.DeepEqual(kube.PodRequests(x.sample), requests)
		})
		if i < 0 {
			i = slices.IndexFunc(r.sets, func(x podSet) bool { return x.left > 0 })
		}
		if i >= 0 {
			r.sets[i].left--
		}
	}
	for _, x := range r.sets {
		r.Size += x.left
	}
}
