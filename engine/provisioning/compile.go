package provisioning

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/booking"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/volume"
)

// CompileProblem reads from the snapshot all data that the packing needs.
func CompileProblem(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache) *Problem {
	return CompileTrial(s, opt, cache.Take(s, opt.Threads), nil)
}

// CompileTrial compiles the snapshot as if the machines of the trial were leaving. A nil trial changes nothing.
func CompileTrial(s *engine.Snapshot, opt engine.Options, pods *inventory.PodIndex, t *Trial) *Problem {
	p := ReadProblem(s, opt, pods, t)
	p.Model()
	return p
}

// ReadProblem reads the machines and the pods that need a place, without the data to find places.
func ReadProblem(s *engine.Snapshot, opt engine.Options, pods *inventory.PodIndex, t *Trial) *Problem {
	return readProblem(s, opt, pods, t, 1)
}

// readProblem is ReadProblem with limits on rules that are divided by parts.
func readProblem(s *engine.Snapshot, opt engine.Options, pods *inventory.PodIndex, t *Trial, parts int) *Problem {
	rd := &Reading{parts: parts, Snapshot: s, opt: opt, trial: t, Pods: pods, Machines: pods.Machines(s)}
	p := &Problem{
		Reading: rd, daemons: constraints.DaemonSets(pods.Daemons(s)), places: map[string]*where{}, ways: map[string]*packing.Ways{},
		levels: map[relaxationKey][]packing.Level{}, requests: map[*inventory.RequestClass]capacity.Vector{},
	}
	t.mark(p.Machines)
	if t != nil {
		p.guards = t.Guards
	}
	p.Gangs, p.holds = knownGangs(s, pods), booking.HoldsOf(s)
	p.learned = pods.Cache.MachineListOf(s).Memory()
	pods.Cache.InterPods++
	p.Pools, p.broken = offering.PoolsOf(s, pods.Cache, p.Machines)
	p.values = offering.NewLabelValues(p.Pools, p.Machines)
	p.Constraints, p.InterPod = constraints.NewReader(s, opt, pods, p.values), constraints.NewInterPod(pods.Cache.InterPods)
	p.loseDisks()
	p.moving = p.leavers()
	p.promise()
	p.Constraints.Volumes.Leave(p.moving)
	known := inventory.KeptBy[knownBackoffs](pods.Cache)
	if known.pass != pods.Pass || known.held != pods.HeldCount() {
		*known = knownBackoffs{pods.Pass, pods.HeldCount(), p.ReadBackoffs()}
	}
	p.Backoffs, p.Constraints.Backoffs = known.LaunchBackoffs, known.LaunchBackoffs
	waiting := p.toPlan(p.SortPods())
	p.meet(waiting)
	p.Classes = p.classesOf(waiting)
	return p
}

// sell lists the options that the pools can buy, for a problem without pods to place.
func (p *Problem) sell() {
	p.prepare()
	for _, pool := range p.Pools {
		pool.List(p.input())
	}
}

// prepare collects the resources, selectors, keys and values that matter in the problem.
func (p *Problem) prepare() {
	p.Names = p.resources()
	p.namesText = p.Names.Text()
	p.InterPod.Number(p.selected(), p.daemons)
	p.judgeDaemons()
	p.mention()
}

// input returns the data on which the options of pools depend. Supplies are known only after ration.
func (p *Problem) input() *offering.Input {
	return &offering.Input{
		Opt: p.opt, Constraints: p.Constraints, InterPod: p.InterPod, DaemonSets: p.daemons, Universe: p.universe, Names: p.Names, Memory: p.learned, Draws: p.drawsOf, Cover: p.cover, Left: func(quota int) int { return p.Packing.Quotas[quota] },
	}
}

// Model builds the packing problem.
func (p *Problem) Model() {
	opt := p.opt
	p.prepare()
	for _, c := range p.Classes {
		c.Request = p.Names.Vector(c.requests)
	}
	p.Packing = &packing.Problem{
		Effort: opt.EffectiveEffort(), PriceBand: opt.EffectivePriceBand(), MaxTypes: opt.EffectiveMaxTypes(), Threads: opt.Threads, Stop: opt.Stop,
		Weighted: opt.Preferences == engine.Weighted, Devices: p.Names.Devices(), MostLooks: p.mostLooks(), Work: p.work,
	}
	p.Packing.Unit = p.Names.Vector(corev1.ResourceList{corev1.ResourceCPU: kube.Quantity(corev1.ResourceCPU, 1000)})
	p.ration()
	p.share()
	in := p.input()
	for _, pool := range p.Pools {
		pool.Compile(in)
		p.Packing.Pools = append(p.Packing.Pools, pool.Model)
	}
	p.Packing.Relief = p.relief()
	p.readMachines()
	for _, c := range p.Classes {
		p.Packing.Classes = append(p.Packing.Classes, p.classOf(c))
	}
	p.Packing.Layout, p.Packing.Places = p.InterPod.Layout, p.InterPod.List
}

// meet collects the rules that pods have about each other.
func (p *Problem) meet(waiting []pendingClass) {
	seen := map[*constraints.PodConstraints]bool{}
	for _, w := range waiting {
		if !seen[w.constraints] {
			seen[w.constraints] = true
			p.InterPod.Add(w.constraints)
		}
	}
	for _, m := range p.Machines {
		for _, info := range m.Pods.Particular {
			p.InterPod.AddRunning(p.Constraints, info)
		}
	}
	p.meetDaemons()
	p.InterPod.Claim(p.Constraints.Claims.Kinds())
	p.InterPod.Close()
}

// selected returns the selectors that select any waiting pod.
func (p *Problem) selected() bitset.Set {
	out := bitset.New(len(p.InterPod.Selectors))
	for _, c := range p.Classes {
		for _, m := range c.matched {
			out.Add(m)
		}
	}
	return out
}

// budgetsOfPods returns the PodDisruptionBudgets that cover pods.
func (rd *Reading) budgetsOfPods() *budget.Guards {
	if rd.guards == nil {
		rd.guards = budget.NewGuards(rd.Snapshot, rd.Pods)
	}
	return rd.guards
}

// asked returns the resources that pods, DaemonSets or limits name.
func (p *Problem) asked() map[corev1.ResourceName]bool {
	asked := map[corev1.ResourceName]bool{}
	for _, c := range p.Classes {
		for name := range c.requests {
			asked[name] = true
		}
	}
	for _, d := range p.daemons {
		for name := range d.Requests {
			asked[name] = true
		}
	}
	for _, pool := range p.Pools {
		for name := range pool.NodePool.Spec.Limits {
			asked[name] = true
		}
	}
	return asked
}

// mention adds to the universe every key and value that matters in the problem.
func (p *Problem) mention() {
	u := &requirement.Universe{}
	p.universe = u
	demands := make([]*kube.NodeConstraints, 0, len(p.Classes)+len(p.daemons))
	seen := map[*constraints.PodConstraints]bool{}
	for _, c := range p.Classes {
		if seen[c.PodConstraints] {
			continue
		}
		seen[c.PodConstraints] = true
		demands = append(demands, &c.NodeConstraints, &kube.NodeConstraints{Terms: c.Strict}) // spreads count nodes by the strict terms
		for i := range c.Soft {
			if term := c.Soft[i].Node; term != nil {
				demands = append(demands, &kube.NodeConstraints{Terms: [][]requirement.Expression{term}})
			}
		}
	}
	for _, key := range p.InterPod.LabelKeys() {
		u.Mention(key)
	}
	for i := range p.daemons {
		demands = append(demands, &p.daemons[i].NodeConstraints)
	}
	for _, d := range demands {
		for _, term := range d.Told { // reasons name keys even if none of their values matters
			for _, e := range term {
				if !p.values.IsAbsent(e.Key) {
					u.Mention(e.Key)
				}
			}
		}
		for _, term := range d.Terms {
			for _, e := range term {
				u.MentionExpression(e)
			}
		}
	}
	for _, pool := range p.Pools {
		pool.Mention(u)
	}
	for _, m := range p.Machines {
		if m.Open == nil {
			continue
		}
		for _, r := range m.Claim.Spec.Requirements {
			u.MentionExpression(kube.PoolExpression(r))
		}
	}
	// Types have dozens of labels. Only the keys mentioned above matter.
	for _, pool := range p.Pools {
		pool.MentionTypes(u)
	}
	for _, m := range p.Machines {
		if m.Open != nil {
			for _, t := range m.Open.Types {
				mentionType(u, t)
			}
		}
	}
	u.Close()
}

// mentionType adds to the universe the values of a type's labels, for the keys that it has already.
func mentionType(u *requirement.Universe, t *engine.InstanceType) {
	for key, values := range t.Labels {
		if u.Key(key) >= 0 {
			u.Mention(key, values...)
		}
	}
}

// share assigns indexes to the volumes and device claims that classes share.
func (p *Problem) share() {
	p.shared = map[volume.Attachment]int{}
	for _, c := range p.Classes {
		for _, a := range c.Volumes.Shared {
			if _, known := p.shared[a]; !known {
				p.shared[a] = len(p.shared)
			}
		}
	}
	p.devices = map[string]int{}
	for _, c := range p.Classes {
		if name := c.Devices.Shared; name != "" {
			if _, known := p.devices[name]; !known {
				p.devices[name] = len(p.shared) + len(p.devices)
			}
		}
	}
	p.Packing.Things = len(p.shared) + len(p.devices)
}

// requestOf returns the requests of the pod as a vector, which pods with equal requests share.
func (p *Problem) requestOf(pod *corev1.Pod) capacity.Vector {
	return p.RequestFor(p.Pods.Cache.RequestsOf(pod))
}

// RequestFor returns the requests as a vector.
func (p *Problem) RequestFor(need *inventory.RequestClass) capacity.Vector {
	v, ok := p.requests[need]
	if !ok {
		v = p.Names.Vector(need.List)
		p.requests[need] = v
	}
	return v
}

// classOf returns the class with the places that it may use.
func (p *Problem) classOf(c *podClass) packing.Class {
	c.levels = p.sharedRelaxations(c)
	out := packing.Class{Request: c.Request, Count: len(c.Pods), Priority: c.rank, Levels: c.levels, Batch: c.batch}
	if !p.trial.counts() {
		out.Owners = p.ownersOf(c)
	}
	for _, a := range c.Volumes.Shared {
		resource := p.Names.Find(string(kube.AttachResource(a.Driver)))
		out.Shared = append(out.Shared, packing.Shared{Thing: p.shared[a], Resource: resource, Amount: 1})
	}
	if c.Devices.Shared != "" {
		for _, name := range slices.Sorted(maps.Keys(c.Devices.Requests)) {
			q := c.Devices.Requests[name]
			out.Shared = append(out.Shared, packing.Shared{Thing: p.devices[c.Devices.Shared], Resource: p.Names.Find(string(name)), Amount: q.Value()})
		}
	}
	if c.Assigned != nil {
		out.Assigned, out.Proposed = c.Assigned.Target+1, c.proposed
	}
	return out
}

// ownersOf returns the index of each pod's controller, and -1 for a pod without one. It returns nil if no pod of the class has a controller.
func (p *Problem) ownersOf(c *podClass) []int {
	var out []int
	for i, pod := range c.Pods {
		name := p.Pods.Cache.OwnerOf(pod)
		if name == "" {
			continue
		}
		if out == nil {
			out = slices.Repeat([]int{-1}, len(c.Pods))
		}
		out[i] = p.owners.Index(name)
	}
	return out
}

// sharedRelaxations returns the levels of the class's constraints. Classes with the same constraints share them, even if their requests
// differ, as long as both classes request memory or neither does.
func (p *Problem) sharedRelaxations(c *podClass) []packing.Level {
	key := relaxationKey{c.PodConstraints, fmt.Sprint(c.matched), c.wantsRoom()}
	levels, ok := p.levels[key]
	if !ok {
		levels = p.relaxationsOf(c.PodConstraints, c.matched)
		if key.roomy {
			levels = p.roomy(levels)
		}
		p.levels[key] = levels
	}
	return levels
}

// resources returns the names of the problem's resources. If there are too many, resources that no machine has become one.
func (p *Problem) resources() *kube.ResourceNames {
	asked := p.asked()
	if len(asked) <= kube.FewNames {
		return kube.NewResourceNames(asked)
	}
	there := map[corev1.ResourceName]bool{}
	for _, pool := range p.Pools {
		for name := range pool.NodePool.Spec.Limits {
			there[name] = true
		}
		for i := range pool.Class.InstanceTypes {
			for name := range pool.Class.InstanceTypes[i].Capacity {
				there[name] = true
			}
		}
	}
	for _, m := range p.Machines {
		for name := range m.Allocatable {
			there[name] = true
		}
	}
	missing := map[string]bool{}
	for name := range asked {
		if !there[name] && !kube.IsPlanned(string(name)) {
			missing[string(name)] = true
			delete(asked, name)
		}
	}
	r := kube.NewResourceNames(asked)
	r.Nowhere = missing
	r.Index(kube.Nowhere)
	return r
}
