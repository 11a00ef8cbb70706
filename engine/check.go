package engine

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// Check says whether part of an older plan is still right in the newest snapshot; the zero Reason means yes. Callers
// check at the moment of acting instead of waiting to see whether a plan holds.
func Check(a Action, s *Snapshot) Reason { return NewChecker(s).Check(a) }

// Checker checks many actions against one snapshot. It is to be used from one goroutine.
type Checker struct {
	s       *Snapshot
	pools   map[string]*v1.NodePool
	types   typeIndex
	problem *problem                       // hosts, and where pods are expected
	waiting map[PodID]bool                 // pods that need a machine
	home    map[PodID]string               // the machines on which pods are expected
	opening map[PodID]string               // pods whose machine takes pods only now, and which that is
	used    map[string]corev1.ResourceList // by the machines of each pool, and by the launches found right so far
	disrupt *Plan                          // what Disrupt says now; nil until it is needed
	options Options                        // for Disrupt
}

// NewCheckerWith is NewChecker for plans that were made with these options.
func NewCheckerWith(s *Snapshot, opt Options) *Checker {
	c := NewChecker(s)
	c.options = opt
	return c
}

// NewChecker prepares for checking actions against s.
func NewChecker(s *Snapshot) *Checker {
	c := &Checker{s: s, pools: poolsByName(s), types: newTypeIndex(s), waiting: map[PodID]bool{}, home: map[PodID]string{}, used: map[string]corev1.ResourceList{}}
	pods := (*Memo)(nil).take(s, 1)
	c.problem = &problem{snapshot: s, census: pods, hosts: hostsOf(s, pods), wishes: newWishes(s, Options{}, pods, nil)}
	c.problem.backoffs = c.problem.readBackoffs()
	for _, pod := range c.problem.sortPods() {
		c.waiting[podID(pod)] = true
	}
	for _, h := range c.problem.hosts {
		for _, pod := range h.expected {
			c.home[podID(pod)] = h.id()
		}
	}
	c.opening = podsOfOpening(s)
	for pod := range c.problem.backoffs.unfit {
		delete(c.opening, podID(pod))
	}
	return c
}

// Check says whether the action is still right. Launches that are found right count against the limits of those checked
// after them.
func (c *Checker) Check(a Action) Reason {
	switch a := a.(type) {
	case Launch:
		return c.checkLaunch(a)
	case Placement:
		return c.checkPlacement(a)
	case Disruption:
		return c.checkDisruption(a)
	}
	panic(fmt.Sprintf("%T is no part of a plan", a))
}

// checkLaunch: the pool can still be used, some of the pods still wait for a machine and will not find their first one, and the
// pool's limits leave room.
func (c *Checker) checkLaunch(l Launch) Reason {
	pool := c.pools[l.NodePool]
	if pool == nil {
		return Reason{Code: PoolChanged, NodePool: l.NodePool, Have: "it does not exist"}
	}
	class := findClass(c.s, pool.Spec.Template.Spec.NodeClassRef)
	if r := poolProblem(pool, class); !r.OK() {
		return Reason{Code: PoolChanged, NodePool: l.NodePool, Have: r.Have}
	}
	if len(l.Pods) > 0 && !slices.ContainsFunc(l.Pods, func(id PodID) bool { return c.needs(l, id) }) {
		return Reason{Code: PodGone, NodePool: l.NodePool, Need: l.Pods[0].String()}
	}
	if r := c.opens(l); !r.OK() {
		return r
	}
	return c.spend(l, pool)
}

// opens says that the launch is for nobody but pods whose machine is opening.
func (c *Checker) opens(l Launch) Reason {
	for _, id := range l.Pods {
		if c.opening[id] == "" {
			return Reason{}
		}
	}
	if len(l.Pods) == 0 {
		return Reason{}
	}
	return Reason{Code: MachineOpening, NodePool: l.NodePool, Need: l.Pods[0].String(), Have: "NodeClaim " + c.opening[l.Pods[0]]}
}

// needs reports whether the pod still needs the launch: it waits, or it is expected where the plan says that it cannot run.
func (c *Checker) needs(l Launch, id PodID) bool {
	return c.waiting[id] || slices.Contains(l.Instead, c.home[id])
}

// spend counts the largest listed type of the launch against the pool's limits.
func (c *Checker) spend(l Launch, pool *v1.NodePool) Reason {
	if len(pool.Spec.Limits) == 0 {
		return Reason{}
	}
	used, ok := c.used[pool.Name]
	if !ok {
		used = poolUsage(c.problem.hosts, pool.Name)
	}
	most := corev1.ResourceList{v1.ResourceNodes: quantity(v1.ResourceNodes, 1)}
	for _, name := range l.InstanceTypes {
		if t := c.types.find(pool.Spec.Template.Spec.NodeClassRef, name); t != nil {
			maxList(most, t.Capacity)
		}
	}
	with := used.DeepCopy()
	addList(with, most)
	for _, name := range limitNames(pool) {
		limit, sum := pool.Spec.Limits[name], with[name]
		if sum.Cmp(limit) > 0 {
			return Reason{
				Code: LimitReached, NodePool: pool.Name, Key: string(name), Need: sum.String() + " in all",
				Have: "the limit is " + limit.String(),
			}
		}
	}
	c.used[pool.Name] = with
	return Reason{}
}

func limitNames(pool *v1.NodePool) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(pool.Spec.Limits))
	for name := range pool.Spec.Limits {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// checkPlacement: the machine is still there, and the pod is expected on it or free to go there.
func (c *Checker) checkPlacement(p Placement) Reason {
	for _, h := range c.problem.hosts {
		if h.leaving || h.gone || h.name() != p.Node && (p.Claim == "" || h.claimName() != p.Claim) {
			continue
		}
		expected := slices.ContainsFunc(h.expected, func(pod *corev1.Pod) bool { return podID(pod) == p.Pod })
		if expected || c.waiting[p.Pod] {
			return Reason{}
		}
		return Reason{Code: PodGone, Need: p.Pod.String()}
	}
	return Reason{Code: NodeGone, Need: p.Node}
}

// checkDisruption: planning anew would still remove every one of the nodes, for the same reason.
func (c *Checker) checkDisruption(d Disruption) Reason {
	if c.disrupt == nil {
		c.disrupt = Disrupt(c.s, c.options, nil)
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
		return Reason{Code: NodeGone, Need: name}
	}
	return Reason{}
}

// Room says whether the launch's pool can still be used and its limits leave room, whatever becomes of the launch's pods;
// the zero Reason means yes. Like Check, it counts launches that are found right.
func (c *Checker) Room(l Launch) Reason {
	pool := c.pools[l.NodePool]
	if pool == nil {
		return Reason{Code: PoolChanged, NodePool: l.NodePool, Have: "it does not exist"}
	}
	if pool.Spec.Replicas != nil { // it takes no pods by itself, but machines
		open := *pool
		open.Spec.Replicas = nil
		pool = &open
		if _, counted := c.used[pool.Name]; !counted {
			c.used[pool.Name] = c.occupied(pool.Name)
		}
	}
	if r := poolProblem(pool, findClass(c.s, pool.Spec.Template.Spec.NodeClassRef)); !r.OK() {
		return Reason{Code: PoolChanged, NodePool: l.NodePool, Have: r.Have}
	}
	return c.spend(l, pool)
}

// occupied is what the machines of a pool of fixed size use of its limits, those included that are on their way out: they
// are there.
func (c *Checker) occupied(pool string) corev1.ResourceList {
	used := poolUsage(c.problem.hosts, pool)
	for _, h := range c.problem.hosts {
		if h.claim != nil && h.claim.DeletionTimestamp != nil && h.pool() == pool {
			addList(used, corev1.ResourceList{v1.ResourceNodes: quantity(v1.ResourceNodes, 1)})
		}
	}
	return used
}
