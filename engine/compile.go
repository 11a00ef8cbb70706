package engine

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/topology"
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
	daemons   []daemon
	refused   []Unplaced // pods that are not part of the packing problem
	places    map[string]*where
	levels    map[levelKey][]packing.Level
	requests  map[*podNeed]capacity.Vector
	moving    map[*corev1.Pod]bool // pods that leave their machine
	// reservations numbers capacity reservations by name; learned holds the memory of running machines by type.
	reservations map[string]int
	learned      map[*InstanceType]*resource.Quantity
	owners       capacity.Names // controllers of waiting pods
	// shared numbers the volumes of waiting pods that more than one pod may use on a node.
	shared  map[attachment]int
	packing *packing.Problem
}

type levelKey struct {
	wish    *wish
	matched string
}

// waitingPod is a pod to plan for. Home is the machine that it is expected on, nil for none.
type waitingPod struct {
	pod  *corev1.Pod
	wish *wish
	home *host
	// proposed is true where the home is only a proposal: room has to be there.
	proposed bool
	batch    int
}

// compile reads everything that the packing needs out of the snapshot.
func compile(s *Snapshot, opt Options, memo *Memo) *problem { return compileTrial(s, opt, memo, nil) }

// compileTrial compiles the snapshot as if some machines were leaving; with nil it is the snapshot as it is.
func compileTrial(s *Snapshot, opt Options, memo *Memo, t *trial) *problem {
	return compileCounted(s, opt, memo.take(s), t)
}

func compileCounted(s *Snapshot, opt Options, pods *census, t *trial) *problem {
	p := &problem{snapshot: s, opt: opt, trial: t, census: pods, hosts: hostsOf(s, pods), daemons: daemonsOf(s), places: map[string]*where{},
		levels: map[levelKey][]packing.Level{}, requests: map[*podNeed]capacity.Vector{}}
	t.mark(p.hosts)
	if t != nil {
		p.guards = t.guards
	}
	p.learned = learn(p.hosts)
	p.wishes, p.crowd = newWishes(s, opt, pods), newCrowd()
	p.loseDisks()
	p.moving = p.leavers()
	p.promise()
	p.wishes.volumes.leave(p.moving)
	waiting := p.toPlan(p.sortPods())
	p.meet(waiting)
	p.classes = p.classesOf(waiting)
	p.pools, p.broken = poolsOf(s, p.hosts)
	p.names = newResourceNames(p.asked())
	p.namesText = p.names.text()
	for _, c := range p.classes {
		c.request = p.names.vector(c.need)
	}
	p.packing = &packing.Problem{
		Effort: opt.effort(), PriceBand: opt.priceBand(), MaxTypes: opt.maxTypes(), Threads: opt.Threads,
		Weighted: opt.Preferences == Weighted, Devices: p.names.devices(),
	}
	p.packing.Unit = p.names.vector(corev1.ResourceList{corev1.ResourceCPU: quantity(corev1.ResourceCPU, 1000)})
	p.crowd.number(p.selected())
	p.mention()
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
	return p
}

// meet collects what pods want of each other.
func (p *problem) meet(waiting []waitingPod) {
	seen := map[*wish]bool{}
	for _, w := range waiting {
		if !seen[w.wish] {
			seen[w.wish] = true
			p.crowd.want(w.wish)
		}
	}
	for _, h := range p.hosts {
		for _, f := range h.roll.facts {
			if f.particular {
				p.crowd.ran(p.wishes, f.pod)
			}
		}
	}
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

// sortPods settles, for every pod that runs nowhere, whether it is expected on some machine. It returns those that are not.
func (p *problem) sortPods() []*corev1.Pod {
	if p.trial != nil {
		return p.sortTrial()
	}
	byName := map[string]*host{}
	byPlan := map[string]*host{}
	for _, h := range p.hosts {
		if h.leaving {
			continue
		}
		byName[h.name()] = h
		if h.claim != nil && !h.isTried(p.snapshot.Now) {
			for _, uid := range PlannedPods(h.claim) {
				// A pod that could not run on its first machine was planned for anew: the newest plan holds.
				if other := byPlan[uid]; other == nil || !h.claim.CreationTimestamp.Before(&other.claim.CreationTimestamp) {
					byPlan[uid] = h
				}
			}
		}
	}
	var waiting []*corev1.Pod
	for _, pod := range p.census.unbound {
		if !isActive(pod) || OwnedByDaemonSet(pod) || IsMirror(pod) {
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
	return waiting
}

// recheckExpected keeps pods expected on a machine as long as they fit beside what runs there now, and as long as the
// machine, once it is initialized, still admits them; the others wait like any pod. Pods that are being preempted there
// do not count, nor do the DaemonSets' reserves, which the plan knew.
func (p *problem) recheckExpected(waiting []*corev1.Pod) []*corev1.Pod {
	for _, h := range p.hosts {
		if len(h.expected) == 0 {
			continue
		}
		slices.SortFunc(h.expected, olderFirst)
		taken := corev1.ResourceList{}
		for _, pod := range h.bound {
			if !IsTerminating(pod) {
				addList(taken, PodRequests(pod))
			}
		}
		var kept []*corev1.Pod
		for _, pod := range h.expected {
			with, need := taken.DeepCopy(), PodRequests(pod)
			addList(with, need)
			d := p.wishes.of(pod).demand
			if listFits(need, with, h.allocatable) && (!h.isInitialized() || h.admits(&d, nil)) {
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

// listFits reports whether, of what is needed, there is enough for all; what others have overdrawn does not matter.
func listFits(need, all, have corev1.ResourceList) bool {
	for name, q := range need {
		sum, h := all[name], have[name]
		if q.Sign() > 0 && sum.Cmp(h) > 0 {
			return false
		}
	}
	return true
}

// budgetsOfPods finds the PodDisruptionBudgets that cover pods.
func (p *problem) budgetsOfPods() *guards {
	if p.guards == nil {
		p.guards = newGuards(p.snapshot, p.census)
	}
	return p.guards
}

// leavingPods lists the pods that need another place because their machine is being removed.
func (p *problem) leavingPods(h *host) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range h.bound {
		if h.supposed && p.trial.held && IsReschedulable(pod) {
			out = append(out, pod)
		} else if IsReschedulable(pod) && !ProtectionOf(pod, p.snapshot.Now).Active && !p.budgetsOfPods().neverAllow(pod) {
			out = append(out, pod)
		}
	}
	return out
}

// toPlan adds the pods that are expected somewhere, whose first choice is that machine, and takes out those that cannot be
// planned for at all.
func (p *problem) toPlan(pods []*corev1.Pod) []waitingPod {
	home := map[*corev1.Pod]*host{}
	for _, h := range p.hosts {
		for _, pod := range h.expected {
			home[pod] = h
			pods = append(pods, pod)
		}
	}
	proposed := map[*corev1.Pod]bool{}
	if p.trial != nil && len(p.trial.hints) > 0 {
		byKey := make(map[hostKey]*host, len(p.hosts))
		for _, h := range p.hosts {
			byKey[h.key()] = h
		}
		for _, pod := range pods {
			if h := p.trial.homeOf(pod, byKey); h != nil && home[pod] == nil {
				home[pod], proposed[pod] = h, true
			}
		}
	}
	out := make([]waitingPod, 0, len(pods))
	slices.SortFunc(pods, olderFirst)
	for _, pod := range pods {
		w := p.wishes.of(pod)
		if !w.objection.OK() {
			p.refused = append(p.refused, Unplaced{Pod: podID(pod), Reasons: []Reason{w.objection}})
			continue
		}
		out = append(out, waitingPod{pod, w, home[pod], proposed[pod], p.trial.batchOf(pod)})
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
	seen := map[*wish]bool{}
	for _, c := range p.classes {
		if seen[c.wish] {
			continue
		}
		seen[c.wish] = true
		demands = append(demands, &c.demand, &demand{terms: c.strict}) // spreads count nodes by the strict terms
		for i := range c.soft {
			if term := c.soft[i].node; term != nil {
				demands = append(demands, &demand{terms: preferring([][]requirement.Expression{nil}, term)})
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

// settleHosts works out what is free on every machine that may take pods, and counts the pods that are there.
func (p *problem) settleHosts() {
	c := p.crowd
	for _, pool := range p.pools {
		pool.settlePlaces(p)
	}
	at := make([]int, len(p.hosts))
	maybe := make([]crowdGuess, len(p.hosts))
	for i, h := range p.hosts {
		if h.open != nil {
			maybe[i] = p.guess(h)
		}
		at[i] = c.place(func(key string) (string, bool) { return h.knownLabel(key, p.universe) }, func(f int) int32 {
			switch {
			case p.passes(h, &c.filters[f]):
				return 1
			case maybe[i] != nil && maybe[i][f] != nil:
				return topology.Open
			}
			return 0
		})
	}
	c.settle()
	var scratch []int
	for i, h := range p.hosts {
		standing := c.machine(at[i])
		c.mayBe(at[i], maybe[i])
		if h.leaving || len(h.expected) > 0 {
			for _, pod := range h.bound {
				if !p.moving[pod] {
					scratch = c.runs(p.wishes, standing, pod, scratch, h.awaits(pod))
				}
			}
		} else {
			c.runAll(p.wishes, standing, h.roll)
		}
		if h.leaving {
			c.emptied(at[i])
			continue
		}
		if p.trial.closes(h) {
			continue
		}
		h.free, h.target = p.roomOf(h, standing), len(p.targets)
		p.targets = append(p.targets, h)
		node := standing.node(h.free)
		node.Has = p.has(h)
		p.packing.Nodes = append(p.packing.Nodes, node)
	}
}

// leavers are the pods that leave their machine because it is being removed, whether there is another place for them or not.
func (p *problem) leavers() map[*corev1.Pod]bool {
	out := map[*corev1.Pod]bool{}
	for _, h := range p.hosts {
		if !h.leaving {
			continue
		}
		for _, pod := range p.leavingPods(h) {
			out[pod] = true
		}
	}
	return out
}

// guess says where a machine may turn out to be that has not been launched, as each spread sees it.
func (p *problem) guess(h *host) crowdGuess {
	guess := make(crowdGuess, len(p.crowd.filters))
	for f := range p.crowd.filters {
		if terms := p.mayPass(h, &p.crowd.filters[f]); len(terms) > 0 {
			guess[f] = p.possible(h, terms)
		}
	}
	return guess
}

// possible lists, for each key of places, the domains in which the machine may be if it meets one of the terms.
func (p *problem) possible(h *host, terms [][]requirement.Expression) [][]int {
	c := p.crowd
	out := make([][]int, c.keys.Len())
	for i := range out {
		key, ok := strings.CutPrefix(c.keys.Name(i), "label ")
		if !ok {
			continue
		}
		value, known := h.knownLabel(key, p.universe)
		switch {
		case known:
			out[i] = []int{c.domains[i].Index(value)}
		case value == openValue:
			for _, value := range p.openValues(h, key, terms) {
				out[i] = append(out[i], c.domains[i].Index(value))
			}
		}
	}
	return out
}

// openValues lists the values that a label of the machine may get if it meets one of the terms.
func (p *problem) openValues(h *host, key string, terms [][]requirement.Expression) []string {
	u, k := p.universe, p.universe.Key(key)
	all := bitset.New(u.Size(k))
	for _, term := range terms {
		set := h.open.set(u, k)
		for _, e := range term {
			if e.Key == key {
				set.And(u.Set(e))
			}
		}
		all.Or(set)
	}
	var out []string
	for b := all.Next(0); b >= 0; b = all.Next(b + 1) {
		if value, named := u.Value(k, b); named {
			out = append(out, value)
		}
	}
	return out
}

// roomOf is what the pods that run on the machine leave of it.
func (p *problem) roomOf(h *host, at *standing) capacity.Vector {
	free := p.names.vector(h.allocatable)
	free.Add(p.usedBy(h.roll), -1)
	for _, pod := range h.promised {
		free.Add(p.requestOf(pod), -1)
	}
	for i := range p.daemons {
		d := &p.daemons[i]
		if slices.ContainsFunc(h.bound, d.owns) || !h.runs(d, p.universe) {
			continue
		}
		free.Add(p.names.vector(d.need), -1)
		p.crowd.holdPorts(at, d.ports)
	}
	if drivers := p.names.drivers(); len(drivers) > 0 {
		h.volumes = p.wishes.volumes.attachedTo(h.name(), h.expectedType(), h.bound)
		for driver, d := range drivers {
			free[d] = h.volumes.free(driver)
		}
	}
	return free
}

// has holds the shared volumes that are on the machine, and stay there.
func (p *problem) has(h *host) bitset.Set {
	if len(p.shared) == 0 {
		return nil
	}
	out := bitset.New(len(p.shared))
	on := h.volumes
	if slices.ContainsFunc(h.bound, h.awaits) {
		staying := slices.DeleteFunc(slices.Clone(h.bound), h.awaits)
		on = p.wishes.volumes.attachedTo(h.name(), h.expectedType(), staying)
	}
	for _, list := range []map[attachment]bool{on.inUse, on.others} {
		for a := range list {
			if i, ok := p.shared[a]; ok {
				out.Add(i)
			}
		}
	}
	return out
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
	need := p.census.memo.needOf(pod)
	v, ok := p.requests[need]
	if !ok {
		v = p.names.vector(need.list)
		p.requests[need] = v
	}
	return v
}

// passes reports whether a spread with this filter counts the machine.
func (p *problem) passes(h *host, f *crowdFilter) bool {
	for _, key := range f.keys {
		if _, ok := h.knownLabel(key, p.universe); !ok {
			return false
		}
	}
	if f.honour && untolerated(f.taints, h.taints) != nil {
		return false
	}
	return f.demand == nil || slices.ContainsFunc(f.demand.terms, func(term []requirement.Expression) bool {
		return !slices.ContainsFunc(term, func(e requirement.Expression) bool { return !h.meets(e, p.universe) })
	})
}

// mayPass lists the terms by which the spread may turn out to count the machine, none if it cannot.
func (p *problem) mayPass(h *host, f *crowdFilter) [][]requirement.Expression {
	for _, key := range f.keys {
		if value, ok := h.knownLabel(key, p.universe); !ok && value != openValue {
			return nil
		}
	}
	if f.honour && untolerated(f.taints, h.taints) != nil {
		return nil
	}
	if f.demand == nil {
		return [][]requirement.Expression{nil}
	}
	var out [][]requirement.Expression
	for _, term := range f.demand.terms {
		if !slices.ContainsFunc(term, func(e requirement.Expression) bool { return !h.mayMeet(e, p.universe) }) {
			out = append(out, term)
		}
	}
	return out
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
	c.levels = p.sharedLevels(c)
	out := packing.Class{Request: c.request, Count: len(c.pods), Priority: int(c.priority), Levels: c.levels, Owners: p.ownersOf(c), Batch: c.batch}
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
		controller := metav1.GetControllerOfNoCopy(pod)
		if controller == nil {
			continue
		}
		if out == nil {
			out = slices.Repeat([]int{-1}, len(c.pods))
		}
		out[i] = p.owners.Index(pod.Namespace + "/" + controller.Kind + "/" + controller.Name)
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

// poolUsage adds up what the machines of a pool count against its limits.
func poolUsage(hosts []*host, pool string) corev1.ResourceList {
	used := corev1.ResourceList{}
	for _, h := range hosts {
		if h.leaving && !h.supposed || h.pool() != pool || h.claim == nil {
			continue
		}
		addList(used, h.capacity)
		addList(used, corev1.ResourceList{v1.ResourceNodes: quantity(v1.ResourceNodes, 1)})
	}
	return used
}
