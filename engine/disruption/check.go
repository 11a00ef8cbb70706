package disruption

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/api/autoscalingv1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/booking"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/gang"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/limits"
	"tenon.sh/engine/nomination"
	"tenon.sh/engine/ondemand"
	"tenon.sh/engine/provisioning"
)

// Check returns why a part of an older plan is no longer right in the newest snapshot; the zero Reason if it still is. Callers check a part when they
// carry it out, so they need not wait to see whether a plan remains right.
func Check(a engine.Action, s *engine.Snapshot) engine.Reason { return NewChecker(s).Check(a) }

// Checker checks many actions against one snapshot. Only one goroutine may use it.
type Checker struct {
	s        *engine.Snapshot
	pools    map[string]*v1.NodePool
	reading  *provisioning.Reading   // machines, and where pods are expected
	waiting  map[engine.PodID]bool   // pods that need a machine
	assigned map[engine.PodID]string // the machines on which pods are expected
	opening  map[engine.PodID]string // by pod, the claim whose machine has only now become ready for its planned pods
	usage    *limits.Usage           // the pools' usage, including the launches that Check has found right
	disrupt  *engine.Plan            // the result of Plan now; nil until a check needs it
	options  engine.Options          // for Plan
}

// NewCheckerWith is NewChecker for plans that were made with these options.
func NewCheckerWith(s *engine.Snapshot, opt engine.Options) *Checker {
	c := NewChecker(s)
	c.options = opt
	return c
}

// NewChecker prepares for checking actions against s.
func NewChecker(s *engine.Snapshot) *Checker {
	c := &Checker{s: s, pools: kube.PoolsByName(s), waiting: map[engine.PodID]bool{}, assigned: map[engine.PodID]string{}}
	s, _ = ondemand.Marked(s, &ondemand.Copies{})
	pods := (*inventory.Cache)(nil).Take(s, 1)
	c.reading = &provisioning.Reading{Snapshot: s, Pods: pods, Gangs: gang.Read(s), Machines: inventory.MachinesOf(s, pods), Constraints: constraints.NewReader(s, engine.Options{}, pods, nil)}
	c.usage = limits.NewUsage(s, pods, c.reading.Machines)
	c.reading.Backoffs = c.reading.ReadBackoffs()
	for _, pod := range c.reading.SortPods() {
		c.waiting[kube.PodID(pod)] = true
	}
	for _, m := range c.reading.Machines {
		for _, pod := range m.Expected {
			c.assigned[kube.PodID(pod)] = m.ID()
		}
	}
	c.opening = nomination.PodsOfOpening(s)
	for pod := range c.reading.Backoffs.Unfit {
		delete(c.opening, kube.PodID(pod))
	}
	return c
}

// Check returns why the action is no longer right; the zero Reason if it still is. A launch that is right uses up limits for the launches that are
// checked after it.
func (c *Checker) Check(a engine.Action) engine.Reason {
	switch a := a.(type) {
	case engine.Launch:
		return c.checkLaunch(a)
	case engine.Placement:
		return c.checkPlacement(a)
	case engine.Disruption:
		return c.checkDisruption(a)
	}
	panic(fmt.Sprintf("%T is no part of a plan", a))
}

// isKept reports whether the buffer exists and is not being deleted.
func (c *Checker) isKept(b engine.BufferShare) bool {
	return slices.ContainsFunc(c.s.CapacityBuffers, func(o *autoscalingv1beta1.CapacityBuffer) bool {
		return o.Namespace == b.Namespace && o.Name == b.Name && o.DeletionTimestamp == nil
	})
}

// isSought reports whether the ProvisioningRequest exists and still looks for room.
func (c *Checker) isSought(b engine.BufferShare) bool {
	return slices.ContainsFunc(c.s.ProvisioningRequests, func(o *autoscalingv1.ProvisioningRequest) bool {
		return o.Namespace == b.Namespace && o.Name == b.Name && booking.Followed(o) && booking.PhaseOf(o) == booking.Seeking
	})
}

// checkLaunch checks that the pool can still be used, that a pod, a buffer or a ProvisioningRequest still needs the launch, and that the
// pool's limits have room for it. A pod needs no launch if its first machine is about to take it.
func (c *Checker) checkLaunch(l engine.Launch) engine.Reason {
	pool := c.pools[l.NodePool]
	if pool == nil {
		return engine.Reason{Code: engine.PoolChanged, NodePool: l.NodePool, Have: "it does not exist"}
	}
	class := kube.FindClass(c.s, pool.Spec.Template.Spec.NodeClassRef)
	if r := kube.PoolProblem(pool, class); !r.OK() {
		return engine.Reason{Code: engine.PoolChanged, NodePool: l.NodePool, Have: r.Have}
	}
	if len(l.Pods) > 0 && !slices.ContainsFunc(l.Pods, func(id engine.PodID) bool { return c.needs(l, id) }) {
		return engine.Reason{Code: engine.PodGone, NodePool: l.NodePool, Need: l.Pods[0].String()}
	}
	if len(l.Pods)+len(l.Buffers) == 0 && len(l.ProvisioningRequests) > 0 && !slices.ContainsFunc(l.ProvisioningRequests, c.isSought) {
		return engine.Reason{Code: engine.PodGone, NodePool: l.NodePool, Need: "of ProvisioningRequest " + l.ProvisioningRequests[0].Namespace + "/" + l.ProvisioningRequests[0].Name}
	}
	if len(l.Pods)+len(l.ProvisioningRequests) == 0 && len(l.Buffers) > 0 && !slices.ContainsFunc(l.Buffers, c.isKept) {
		return engine.Reason{Code: engine.PodGone, NodePool: l.NodePool, Need: "of CapacityBuffer " + l.Buffers[0].Namespace + "/" + l.Buffers[0].Name}
	}
	if r := c.opens(l); !r.OK() {
		return r
	}
	return c.usage.Take(l, pool)
}

// opens returns a reason if all pods of the launch have a machine that has only now become ready for them.
func (c *Checker) opens(l engine.Launch) engine.Reason {
	for _, id := range l.Pods {
		if c.opening[id] == "" {
			return engine.Reason{}
		}
	}
	if len(l.Pods) == 0 {
		return engine.Reason{}
	}
	return engine.Reason{Code: engine.MachineOpening, NodePool: l.NodePool, Need: l.Pods[0].String(), Have: "NodeClaim " + c.opening[l.Pods[0]]}
}

// needs reports whether the pod still needs the launch: the pod waits, or it is expected on a machine of Launch.Instead, where it cannot run.
func (c *Checker) needs(l engine.Launch, id engine.PodID) bool {
	return c.waiting[id] || slices.Contains(l.Instead, c.assigned[id])
}

// checkPlacement checks that the machine still exists, and that the pod waits or is expected there.
func (c *Checker) checkPlacement(p engine.Placement) engine.Reason {
	for _, m := range c.reading.Machines {
		if m.Leaving || m.Gone || m.Name() != p.Node && (p.Claim == "" || m.ClaimName() != p.Claim) {
			continue
		}
		expected := slices.ContainsFunc(m.Expected, func(pod *corev1.Pod) bool { return kube.PodID(pod) == p.Pod })
		if expected || c.waiting[p.Pod] {
			return engine.Reason{}
		}
		return engine.Reason{Code: engine.PodGone, Need: p.Pod.String()}
	}
	return engine.Reason{Code: engine.NodeGone, Need: p.Node}
}

// checkDisruption checks that a new plan would still remove each of the nodes, for the same reason.
func (c *Checker) checkDisruption(d engine.Disruption) engine.Reason {
	if c.disrupt == nil {
		c.disrupt = Plan(c.s, c.options, nil)
	}
	still := map[string]v1.DisruptionReason{}
	for _, other := range c.disrupt.Disruptions {
		for _, name := range other.Nodes {
			still[name] = other.Reason
		}
	}
	for _, name := range d.Nodes {
		if still[name] == d.Reason {
			continue
		}
		for _, kept := range c.disrupt.Kept {
			if kept.Node == name {
				return kept.Reason
			}
		}
		return engine.Reason{Code: engine.NodeGone, Need: name}
	}
	return engine.Reason{}
}

// Room returns why the launch's pool cannot be used any more, or why the pool's limits have no room for the launch. If neither is the case, it
// returns the zero Reason. Room does not look at the launch's pods. Like Check, it lets a launch that is right use up limits.
func (c *Checker) Room(l engine.Launch) engine.Reason {
	pool := c.pools[l.NodePool]
	if pool == nil {
		return engine.Reason{Code: engine.PoolChanged, NodePool: l.NodePool, Have: "it does not exist"}
	}
	if pool.Spec.Replicas != nil { // a static pool starts no machines for pods, but starts this one
		open := *pool
		open.Spec.Replicas = nil
		pool = &open
		c.usage.CountLeaving(pool.Name)
	}
	if r := kube.PoolProblem(pool, kube.FindClass(c.s, pool.Spec.Template.Spec.NodeClassRef)); !r.OK() {
		return engine.Reason{Code: engine.PoolChanged, NodePool: l.NodePool, Have: r.Have}
	}
	return c.usage.Take(l, pool)
}
