package engine

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
)

// problem is a snapshot turned into numbers and sets, together with what they stand for.
type problem struct {
	snapshot  *Snapshot
	opt       Options
	trial     *trial  // nil for none
	guards    *guards // nil until they are asked for
	census    *census
	wishes    *wishes
	crowd     *crowd
	names     *resourceNames
	namesText string // the names in their order
	universe  *requirement.Universe
	hosts     []*host // every machine
	targets   []*host // those that may take pods: the nodes of the packing problem
	pools     []*poolModel
	broken    []Note // pools that cannot be used, and why
	classes   []*podClass
	backoffs  *launchBackoffs
	daemons   []daemonSet
	pending   []*daemonSet // room for those that a machine has not got yet
	refused   []Unplaced   // pods that are not part of the packing problem
	places    map[string]*where
	levels    map[levelKey][]packing.Level
	requests  map[*podNeed]capacity.Vector
	moving    map[*corev1.Pod]bool // pods that leave their machine
	// proposed is the machine that was started for a pod that leaves: it goes there, if there is room.
	proposed map[*corev1.Pod]*host
	// reservations numbers capacity reservations by name; learned holds the memory of running machines by type.
	reservations map[string]int
	learned      map[*InstanceType]*resource.Quantity
	owners       capacity.Names // controllers of waiting pods
	// shared numbers the volumes of waiting pods that more than one pod may use on a node.
	shared  map[attachment]int
	packing *packing.Problem
	first   map[int]*podClass // of each set, once asked
	looked  int               // values and rules, for those who count
}

type levelKey struct {
	wish    *wish
	matched string
}

// compile reads everything that the packing needs out of the snapshot.
func compile(s *Snapshot, opt Options, memo *Memo) *problem {
	return compileTrial(s, opt, memo.take(s, opt.Threads), nil)
}

// compileTrial compiles the snapshot as if some machines were leaving; with nil it is the snapshot as it is.
func compileTrial(s *Snapshot, opt Options, pods *census, t *trial) *problem {
	p := readProblem(s, opt, pods, t)
	p.model()
	return p
}

// readProblem reads the machines and what pods need a place, without what it takes to find them one.
func readProblem(s *Snapshot, opt Options, pods *census, t *trial) *problem {
	p := &problem{snapshot: s, opt: opt, trial: t, census: pods, hosts: pods.machines(s), daemons: daemonSets(pods.burdens(s)), places: map[string]*where{},
		levels: map[levelKey][]packing.Level{}, requests: map[*podNeed]capacity.Vector{}}
	t.mark(p.hosts)
	if t != nil {
		p.guards = t.guards
	}
	p.learned = pods.memo.fleetOf(s).memory()
	pods.memo.crowds++
	p.pools, p.broken = poolsOf(s, pods.memo, p.hosts)
	p.wishes, p.crowd = newWishes(s, opt, pods, newLabelValues(p.pools, p.hosts)), newCrowd(pods.memo.crowds)
	p.loseDisks()
	p.moving = p.leavers()
	p.promise()
	p.wishes.volumes.leave(p.moving)
	known := keptBy[knownBackoffs](pods.memo)
	if known.pass != pods.memo.pass {
		*known = knownBackoffs{pods.memo.pass, p.readBackoffs()}
	}
	p.backoffs, p.wishes.backoffs = known.launchBackoffs, known.launchBackoffs
	waiting := p.toPlan(p.sortPods())
	p.meet(waiting)
	p.classes = p.classesOf(waiting)
	return p
}

// sell lists what the pools can buy; nobody has to be placed.
func (p *problem) sell() {
	p.prepare()
	for _, pool := range p.pools {
		pool.options = pool.list(p).options
	}
}

// prepare finds out what the problem tells apart.
func (p *problem) prepare() {
	p.names = p.resources()
	p.namesText = p.names.text()
	p.crowd.number(p.selected(), p.daemons)
	p.judgeDaemons()
	p.mention()
}

// model describes the problem to the packing.
func (p *problem) model() {
	opt := p.opt
	p.prepare()
	for _, c := range p.classes {
		c.request = p.names.vector(c.need)
	}
	p.packing = &packing.Problem{
		Effort: opt.effort(), PriceBand: opt.priceBand(), MaxTypes: opt.maxTypes(), Threads: opt.Threads,
		Weighted: opt.Preferences == Weighted, Devices: p.names.devices(),
	}
	p.packing.Unit = p.names.vector(corev1.ResourceList{corev1.ResourceCPU: quantity(corev1.ResourceCPU, 1000)})
	p.reserve()
	p.share()
	for _, pool := range p.pools {
		pool.compile(p)
		p.packing.Pools = append(p.packing.Pools, pool.model)
	}
	p.settleHosts()
	for _, c := range p.classes {
		p.packing.Classes = append(p.packing.Classes, p.classOf(c))
	}
	p.packing.Layout, p.packing.Places = p.crowd.layout, p.crowd.list
}

// meet collects what pods want of each other.
func (p *problem) meet(waiting []waitingLot) {
	seen := map[*wish]bool{}
	for _, w := range waiting {
		if !seen[w.wish] {
			seen[w.wish] = true
			p.crowd.want(w.wish)
		}
	}
	for _, h := range p.hosts {
		for _, f := range h.roll.particular {
			p.crowd.ran(p.wishes, f)
		}
	}
	p.meetDaemons()
	p.crowd.close()
}

// selected holds the selectors that are about any waiting pod.
func (p *problem) selected() bitset.Set {
	out := bitset.New(len(p.crowd.selectors))
	for _, c := range p.classes {
		for _, m := range c.matched {
			out.Add(m)
		}
	}
	return out
}

// budgetsOfPods finds the PodDisruptionBudgets that cover pods.
func (p *problem) budgetsOfPods() *guards {
	if p.guards == nil {
		p.guards = newGuards(p.snapshot, p.census)
	}
	return p.guards
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
	seen := map[*wish]bool{}
	for _, c := range p.classes {
		if seen[c.wish] {
			continue
		}
		seen[c.wish] = true
		demands = append(demands, &c.demand, &demand{terms: c.strict}) // spreads count nodes by the strict terms
		for i := range c.soft {
			if term := c.soft[i].node; term != nil {
				demands = append(demands, &demand{terms: [][]requirement.Expression{term}})
			}
		}
	}
	for _, key := range p.crowd.labelKeys() {
		u.Mention(key)
	}
	for i := range p.daemons {
		demands = append(demands, &p.daemons[i].demand)
	}
	for _, d := range demands {
		for _, term := range d.told { // reasons ask for keys of which no value matters
			for _, e := range term {
				if !p.wishes.values.isAbsent(e.Key) {
					u.Mention(e.Key)
				}
			}
		}
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

// share numbers the volumes that classes share.
func (p *problem) share() {
	p.shared = map[attachment]int{}
	for _, c := range p.classes {
		for _, a := range c.volumes.Shared {
			if _, known := p.shared[a]; !known {
				p.shared[a] = len(p.shared)
			}
		}
	}
	p.packing.Things = len(p.shared)
}

// requestOf is what the pod requests, as a vector; pods that request the same share it.
func (p *problem) requestOf(pod *corev1.Pod) capacity.Vector {
	return p.requestFor(p.census.memo.needOf(pod))
}

// requestFor is the need as a vector.
func (p *problem) requestFor(need *podNeed) capacity.Vector {
	v, ok := p.requests[need]
	if !ok {
		v = p.names.vector(need.list)
		p.requests[need] = v
	}
	return v
}

// classOf says where the class may go.
func (p *problem) classOf(c *podClass) packing.Class {
	c.levels = p.sharedLevels(c)
	out := packing.Class{Request: c.request, Count: len(c.pods), Priority: int(c.priority), Levels: c.levels, Batch: c.batch}
	if !p.trial.counts() {
		out.Owners = p.ownersOf(c)
	}
	for _, a := range c.volumes.Shared {
		resource := p.names.Find(string(attachResource(a.driver)))
		out.Shared = append(out.Shared, packing.Shared{Thing: p.shared[a], Resource: resource})
	}
	if c.home != nil {
		out.Home, out.Proposed = c.home.target+1, c.proposed
	}
	return out
}

// ownersOf numbers the controllers of the class's pods; nil if none has one.
func (p *problem) ownersOf(c *podClass) []int {
	var out []int
	for i, pod := range c.pods {
		name := p.census.memo.ownerOf(pod)
		if name == "" {
			continue
		}
		if out == nil {
			out = slices.Repeat([]int{-1}, len(c.pods))
		}
		out[i] = p.owners.Index(name)
	}
	return out
}

// sharedLevels are the levels of the class's wish; classes that differ in requests only share them.
func (p *problem) sharedLevels(c *podClass) []packing.Level {
	key := levelKey{c.wish, fmt.Sprint(c.matched)}
	levels, ok := p.levels[key]
	if !ok {
		levels = p.levelsOf(c.wish, c.matched)
		p.levels[key] = levels
	}
	return levels
}

// poolUsage adds up what the machines of a pool count against its limits, each until its claim is being deleted: that its node
// is, or that the cloud will take it, does not mean that it is gone.
func poolUsage(hosts []*host, pool string) corev1.ResourceList {
	used := corev1.ResourceList{}
	for _, h := range hosts {
		if h.claim == nil || h.pool() != pool || h.claim.DeletionTimestamp != nil {
			continue
		}
		addList(used, h.capacity)
		addList(used, corev1.ResourceList{v1.ResourceNodes: quantity(v1.ResourceNodes, 1)})
	}
	return used
}
