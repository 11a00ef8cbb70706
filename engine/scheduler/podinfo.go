package scheduler

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/capacity"
	"tenon.sh/engine/deviceplan"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/volume"
)

// podInfo is a pod of a replay.
type podInfo struct {
	pod      *corev1.Pod
	request  *inventory.RequestClass
	requests capacity.Vector
	// asked are the amounts of requests that are above zero.
	asked             []askedAmount
	requested, scored kube.Usage
	size              int64 // size of the requests, for pods that have to land
	ports             []kube.HostPort
	volumes           []volume.Attachment
	disks             []volume.Disk
	rules             *podRules // nil for a running pod without rules on other pods
	labels            *labelKind
	// counted are the counts that change when the pod is bound.
	counted []*matchCount

	// Only pods that have to land have these.
	filter      *nodeFilter
	constraints *podConstraints
	fit         kube.Usage // the pod's usage as NodeResourcesFit scores it
	scoring     *scoring
	extras      []int64 // its requests of replayState.extraNames
	once        []volume.ClaimID
	devices     *deviceplan.Need // nil for none
	unbound     []unboundClaim
	nomination  int // the node that the pod is nominated to, -1 for none
	lost        bool
}

// measured holds the requests of pods with equal requests, in the replay's order of resources.
type measured struct {
	requests  capacity.Vector
	asked     []askedAmount
	requested kube.Usage
}

// askedAmount is a pod's request of one resource.
type askedAmount struct {
	resource int
	n        int64
}

// measure fills in the pod's requests; info is nil for a pod that the cache does not know.
func (state *replayState) measure(p *podInfo, info *inventory.PodInfo) {
	p.request = state.cache.RequestsKnown(p.pod, info)
	m := state.measuredOf(p.request)
	p.requests, p.asked, p.requested = m.requests, m.asked, m.requested
	if info != nil {
		p.scored = scoredOf(info, p.requested)
	} else {
		p.scored = scoredUsage(p.pod, p.requested)
	}
	p.ports = kube.HostPortsOf(&p.pod.Spec)
}

// scoredOf returns scoredUsage for a pod that the cache knows.
func scoredOf(info *inventory.PodInfo, requested kube.Usage) kube.Usage {
	if !info.ScoredRead {
		info.Scored, info.ScoredRead = scoredUsage(info.Pod, requested), true
	}
	return info.Scored
}

func (state *replayState) measuredOf(request *inventory.RequestClass) *measured {
	m := state.measured[request]
	if m == nil {
		m = &measured{requests: state.names.Vector(request.List), requested: request.UsageOf()}
		for i, n := range m.requests {
			if n > 0 {
				m.asked = append(m.asked, askedAmount{i, n})
			}
		}
		state.measured[request] = m
	}
	return m
}

// scoredUsage returns a pod's usage for LeastAllocated: containers without a request count with a default one.
func scoredUsage(pod *corev1.Pod, requested kube.Usage) kube.Usage {
	names := func(c *corev1.Container) bool {
		_, cpu := c.Resources.Requests[corev1.ResourceCPU]
		_, memory := c.Resources.Requests[corev1.ResourceMemory]
		return cpu && memory
	}
	all := true
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list { // containers are too large to be copied
			all = all && names(&list[i])
		}
	}
	if all {
		return requested
	}
	full := *pod
	full.Spec.Containers = withDefaults(pod.Spec.Containers)
	full.Spec.InitContainers = withDefaults(pod.Spec.InitContainers)
	return kube.UsageOf(kube.PodRequests(&full))
}

// fitUsage returns the usage of a waiting pod for NodeResourcesFit. It leaves out pod-level requests (spec.resources), because kube-scheduler
// 1.36 overlooks them in waiting pods, though it counts them in bound ones.
func fitUsage(pod *corev1.Pod, scored kube.Usage) kube.Usage {
	if pod.Spec.Resources == nil {
		return scored
	}
	own := *pod
	own.Spec.Resources = nil
	return scoredUsage(&own, kube.UsageOf(kube.PodRequests(&own)))
}

func withDefaults(containers []corev1.Container) []corev1.Container {
	out := slices.Clone(containers)
	for i := range out {
		out[i].Resources.Requests = kube.WithMissing(out[i].Resources.Requests.DeepCopy(), corev1.ResourceList{
			corev1.ResourceCPU:    kube.Quantity(corev1.ResourceCPU, defaultMilliCPU),
			corev1.ResourceMemory: kube.Quantity(corev1.ResourceMemory, defaultMemory),
		})
	}
	return out
}

func (p *podInfo) priority() int32 {
	if p.pod.Spec.Priority == nil {
		return 0
	}
	return *p.pod.Spec.Priority
}

// queued orders pods like kube-scheduler's queue: by priority, then by age. A pod that still runs comes after the waiting ones of its priority,
// because its successor does not exist yet.
func queued(a, b *podInfo) int {
	runs := func(p *podInfo) int {
		if p.pod.Spec.NodeName != "" {
			return 1
		}
		return 0
	}
	larger := 0
	if runs(a) == 1 && runs(b) == 1 { // drains evict large pods first
		larger = cmp.Compare(b.size, a.size)
	}
	if n := cmp.Or(cmp.Compare(b.priority(), a.priority()), cmp.Compare(runs(a), runs(b)), larger); n != 0 {
		return n
	}
	return cmp.Or(kube.OlderFirst(a.pod, b.pod), cmp.Compare(a.pod.UID, b.pod.UID))
}
