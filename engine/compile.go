package engine

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
)

// problem is a snapshot turned into numbers and sets, together with what they stand for.
type problem struct {
	snapshot *Snapshot
	opt      Options
	names    *resourceNames
	universe *requirement.Universe
	hosts    []*host // every machine
	targets  []*host // those that may take pods: the nodes of the packing problem
	pools    []*poolModel
	broken   []Note // pools that cannot be used, and why
	classes  []*podClass
	daemons  []daemon
	refused  []Unplaced // pods that are not part of the packing problem
	packing  *packing.Problem
}

// compile reads everything that the packing needs out of the snapshot.
func compile(s *Snapshot, opt Options) *problem {
	p := &problem{snapshot: s, opt: opt, hosts: hostsOf(s), daemons: daemonsOf(s)}
	waiting := p.sortPods()
	p.classes = classesOf(waiting)
	p.pools, p.broken = poolsOf(s, p.hosts)
	p.names = newResourceNames(p.asked())
	for _, c := range p.classes {
		c.request = p.names.vector(c.need)
	}
	p.mention()
	for _, pool := range p.pools {
		pool.compile(p)
	}
	p.settleHosts()
	p.packing = &packing.Problem{Effort: opt.effort(), PriceBand: opt.priceBand(), MaxTypes: opt.maxTypes()}
	p.packing.Unit = p.names.vector(corev1.ResourceList{corev1.ResourceCPU: quantity(corev1.ResourceCPU, 1000)})
	for _, h := range p.targets {
		p.packing.Nodes = append(p.packing.Nodes, packing.Node{Free: h.free})
	}
	for _, pool := range p.pools {
		p.packing.Pools = append(p.packing.Pools, pool.model)
	}
	for _, c := range p.classes {
		p.packing.Classes = append(p.packing.Classes, p.classOf(c))
	}
	return p
}

// sortPods settles, for every pod, whether it is already expected somewhere, can be planned for, or is refused outright.
// It returns those to plan for.
func (p *problem) sortPods() []*corev1.Pod {
	byName := map[string]*host{}
	byPlan := map[string]*host{}
	for _, h := range p.hosts {
		if h.leaving {
			continue
		}
		byName[h.name()] = h
		if h.claim != nil {
			for _, uid := range PlannedPods(h.claim) {
				byPlan[uid] = h
			}
		}
	}
	var waiting []*corev1.Pod
	for _, pod := range p.snapshot.Pods {
		if pod.Spec.NodeName != "" || !isActive(pod) || OwnedByDaemonSet(pod) || IsMirror(pod) {
			continue
		}
		h := byPlan[string(pod.UID)]
		if n := byName[pod.Status.NominatedNodeName]; n != nil {
			h = n
		}
		switch {
		case h != nil && (IsPending(pod) || pod.Status.NominatedNodeName != ""):
			h.expected = append(h.expected, pod)
		case IsPending(pod):
			waiting = append(waiting, pod)
		}
	}
	waiting = p.recheckExpected(waiting)
	for _, h := range p.hosts {
		if h.leaving {
			waiting = append(waiting, p.leavingPods(h)...)
		}
	}
	return p.refuse(waiting)
}

// recheckExpected keeps pods expected on a machine as long as they fit beside what runs there now, and as long as the
// machine, once it is initialized, still admits them; the others wait like any pod. Pods that are being preempted there
// do not count, nor do the DaemonSets' reserves, which the plan knew.
func (p *problem) recheckExpected(waiting []*corev1.Pod) []*corev1.Pod {
	for _, h := range p.hosts {
		if len(h.expected) == 0 {
			continue
		}
		slices.SortFunc(h.expected, func(a, b *corev1.Pod) int { return compareBy(a, b, podBefore) })
		taken := corev1.ResourceList{}
		for _, pod := range h.bound {
			if !IsTerminating(pod) {
				addList(taken, PodRequests(pod))
			}
		}
		var kept []*corev1.Pod
		for _, pod := range h.expected {
			with := taken.DeepCopy()
			addList(with, PodRequests(pod))
			d := demandOf(&pod.Spec)
			if listFits(with, h.allocatable) && (!h.isInitialized() || h.admits(&d, nil)) {
				taken = with
				kept = append(kept, pod)
			} else if IsPending(pod) {
				waiting = append(waiting, pod)
			}
		}
		h.expected = kept
	}
	return waiting
}

func listFits(need, have corev1.ResourceList) bool {
	for name, q := range need {
		h := have[name]
		if q.Sign() > 0 && q.Cmp(h) > 0 {
			return false
		}
	}
	return true
}

// leavingPods lists the pods that need another place because their machine is being removed.
func (p *problem) leavingPods(h *host) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range h.bound {
		if IsReschedulable(pod) && !ProtectionOf(pod, p.snapshot.Now).Active && !blockedForGood(pod, p.snapshot.PodDisruptionBudgets) {
			out = append(out, pod)
		}
	}
	return out
}

// refuse takes out the pods that cannot be planned for at all.
func (p *problem) refuse(pods []*corev1.Pod) []*corev1.Pod {
	out := pods[:0:0]
	for _, pod := range pods {
		if r := objection(pod); !r.OK() {
			p.refused = append(p.refused, Unplaced{Pod: podID(pod), Reasons: []Reason{r}})
			continue
		}
		out = append(out, pod)
	}
	return out
}

// asked collects the resources that pods, DaemonSets or limits name.
func (p *problem) asked() map[corev1.ResourceName]bool {
	asked := map[corev1.ResourceName]bool{}
	for _, c := range p.classes {
		for name := range c.need {
			asked[name] = true
		}
	}
	for _, d := range p.daemons {
		for name := range d.need {
			asked[name] = true
		}
	}
	for _, pool := range p.pools {
		for name := range pool.pool.Spec.Limits {
			asked[name] = true
		}
	}
	return asked
}

// mention tells the universe every key and value that something in the problem tells apart.
func (p *problem) mention() {
	u := &requirement.Universe{}
	p.universe = u
	demands := make([]*demand, 0, len(p.classes)+len(p.daemons))
	for _, c := range p.classes {
		demands = append(demands, &c.demand)
	}
	for i := range p.daemons {
		demands = append(demands, &p.daemons[i].demand)
	}
	for _, d := range demands {
		for _, term := range d.terms {
			for _, e := range term {
				u.MentionExpression(e)
			}
		}
	}
	for _, pool := range p.pools {
		for _, e := range pool.required {
			u.MentionExpression(e)
		}
		for _, key := range sortedKeys(pool.labels) {
			u.Mention(key, pool.labels[key])
		}
	}
	for _, h := range p.hosts {
		if h.open == nil {
			continue
		}
		for _, r := range h.claim.Spec.Requirements {
			u.MentionExpression(poolExpression(r))
		}
	}
	// Types have labels by the dozen; only the keys that something above asks for matter.
	for _, pool := range p.pools {
		pool.mentionTypes(u)
	}
	for _, h := range p.hosts {
		if h.open != nil {
			for _, t := range h.open.types {
				mentionType(u, t)
			}
		}
	}
	u.Close()
}

// mentionType tells the universe the values that a type's labels have, for the keys that it knows already.
func mentionType(u *requirement.Universe, t *InstanceType) {
	for key, values := range t.Labels {
		if u.Key(key) >= 0 {
			u.Mention(key, values...)
		}
	}
}

// settleHosts works out what is free on every machine that may take pods.
func (p *problem) settleHosts() {
	for _, h := range p.hosts {
		if h.leaving {
			continue
		}
		h.free = p.names.vector(h.allocatable)
		for _, pod := range h.bound {
			h.free.Add(p.names.vector(PodRequests(pod)), -1)
		}
		for _, pod := range h.expected {
			h.free.Add(p.names.vector(PodRequests(pod)), -1)
		}
		h.free.Add(p.reserve(h), -1)
		p.targets = append(p.targets, h)
	}
}

// reserve is what DaemonSets will still take of the machine.
func (p *problem) reserve(h *host) capacity.Vector {
	v := make(capacity.Vector, p.names.Len())
	for i := range p.daemons {
		d := &p.daemons[i]
		if slices.ContainsFunc(h.bound, d.owns) || !h.runs(d, p.universe) {
			continue
		}
		v.Add(p.names.vector(d.need), 1)
	}
	return v
}

// runs reports whether the DaemonSet will have a pod on the machine, or may have one as long as labels are open.
func (h *host) runs(d *daemon, u *requirement.Universe) bool {
	if untolerated(d.tolerations, h.taints) != nil {
		return false
	}
	return slices.ContainsFunc(d.terms, func(term []requirement.Expression) bool {
		return !slices.ContainsFunc(term, func(e requirement.Expression) bool {
			if value, ok := startupLabels[e.Key]; ok {
				return !e.Admits(value, true)
			}
			return !h.mayMeet(e, u)
		})
	})
}

// classOf says where the class may go.
func (p *problem) classOf(c *podClass) packing.Class {
	out := packing.Class{Request: c.request, Count: len(c.pods), Nodes: bitset.New(len(p.targets))}
	for i, h := range p.targets {
		if h.admits(&c.demand, p.universe) {
			out.Nodes.Add(i)
		}
	}
	for _, pool := range p.pools {
		out.Pools = append(out.Pools, pool.ways(&c.demand, p.universe))
	}
	return out
}

// blockedForGood reports whether no eviction of the pod can ever be allowed: a budget that says so in its spec, or more
// than one budget, which the eviction API refuses.
func blockedForGood(pod *corev1.Pod, budgets []*policyBudget) bool {
	matching := 0
	for _, b := range budgets {
		if !selects(b, pod) {
			continue
		}
		matching++
		if allowsNone(b) && !(evictsUnready(b) && !isReady(pod)) {
			return true
		}
	}
	return matching > 1
}

// poolUsage adds up what the machines of a pool count against its limits.
func poolUsage(hosts []*host, pool string) corev1.ResourceList {
	used := corev1.ResourceList{}
	for _, h := range hosts {
		if h.leaving || h.pool() != pool || h.claim == nil {
			continue
		}
		addList(used, h.capacity)
		addList(used, corev1.ResourceList{v1.ResourceNodes: quantity(v1.ResourceNodes, 1)})
	}
	return used
}
