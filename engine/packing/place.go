package packing

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/topology"
)

// placement is the part of a round that decides on which existing node each pod is placed, or in which domain it needs a new machine.
type placement struct {
	p        *Problem
	market   *market
	lessons  *learnedLimits
	world    *topology.World
	host     hostIndex
	classes  []classState
	demands  []*demand
	byKey    map[domainKey]*demand
	narrow   map[narrowKey]*Ways
	shapeOf  []int             // an index for each class; classes with equal requests have the same index
	unserved map[int]*unserved // of each set, the result of unservedOf
	nodes    nodeStates
	reader   hostReader
	// followers lists, for each set, the classes and levels with affinity to its pods.
	followers [][]dependant
	// members holds, for each group, the number of classes whose pods it counts.
	members []int
	setLeft []int // pods of each set that are in demands
	// closed holds, for each group over which an assigned pod is spread, the counts when noteClosed was called, -1 for a domain without
	// machines.
	closed [][]int
	stay   []int // nodes whose victims of preemption are not evicted, because the preemptor did not get its place there
	relied bool  // some pod is on a node because every other node has pods of its group

	placed   [][]Share
	order    []Pod
	levels   []int // the level at which each pod in order is placed
	complete bool  // every machine is among the nodes
}

// demand is a number of pods of one class, at one level, for which machines are bought in one domain.
type demand struct {
	class, level, domain int
	single               bool // the view has no other domain
	ways                 *Ways
	place                topology.Place
	rules                *topology.Rules
	host                 *hostRules
	request              capacity.Vector
	own                  capacity.Vector // the request without the shared things that other pods may have brought to the machine
	queue                []int           // the pods, in the order in which they are placed
	left                 int             // the number of pods in queue without a machine
	company              []int           // sets of which the machine must have a pod
}

// levelState caches data of one level of a class.
type levelState struct {
	ready     bool
	view      *view
	host      *hostRules
	rules     *topology.Rules
	free      bool // no rule at all, so pods need not be placed one by one
	nodes     []int
	nodesRead bool
	choices   []domainChoice
	spotsRead bool
}

type narrowKey struct {
	ways   *Ways
	view   *view
	domain int
}

// placePods finds for every pod an existing node, or a domain in which to buy a machine for it. Pods that wait for others are tried again
// as long as any pod is placed.
func (pl *placement) placePods() {
	pl.knowDomains()
	pl.placeAssigned()
	pl.openDomains()
	order := pl.p.queueOrder()
	pl.placeFillings()
	for moved := true; moved; {
		moved = false
		for _, c := range order {
			before := pl.classes[c].next
			pl.placeClass(c)
			moved = moved || pl.classes[c].next > before
		}
		if pl.p.spent() {
			break
		}
	}
}

// knowDomains adds to the world the domains, and the residents, that new machines brought in earlier rounds.
func (pl *placement) knowDomains() {
	for _, places := range pl.lessons.arrived {
		pl.world.Arrive(places, false)
	}
	for g := range pl.p.Layout.Groups {
		group := &pl.p.Layout.Groups[g]
		if group.Key == topology.Host {
			continue
		}
		for d := range pl.p.Layout.Domains[group.Key] {
			if pl.lessons.open[[2]int{g, d}] {
				pl.world.OpenDomain(g, d)
			}
		}
	}
}

// openDomains adds to the world the domains that new machines can open, for the spreads that count them.
func (pl *placement) openDomains() {
	type seen struct {
		group int
		ways  *Ways
	}
	done, capped := map[seen]bool{}, map[dependant]bool{}
	for key := range pl.lessons.caps {
		capped[dependant{key.class, key.level}] = true
	}
	for c := range pl.p.Classes {
		class := &pl.p.Classes[c]
		for l := range class.Levels {
			rules := class.Levels[l].Rules
			if rules == nil || pl.p.spent() {
				continue
			}
			for _, sp := range rules.Spread {
				pl.host.owned[sp.Group] = true
				if key := (seen{sp.Group, class.Levels[l].Ways}); !done[key] || capped[dependant{c, l}] {
					done[key] = done[key] || !capped[dependant{c, l}]
					pl.openFor(sp.Group, c, l)
				}
			}
		}
	}
}

// openFor opens the domains in which new machines can hold the class, except the domains in which none could be bought in the last round.
func (pl *placement) openFor(group, c, l int) {
	pl.prepare(c, l)
	ls := &pl.classes[c].levels[l]
	for domain, sold := range pl.sold(c, l).domains {
		if !sold.ok || pl.lessons.isShut(&pl.p.Layout, group, ls.view.domains[domain]) {
			continue
		}
		if most, capped := pl.lessons.caps[domainKey{c, l, domain}]; !capped || most > 0 {
			pl.world.Open(group, ls.view.domains[domain])
		}
	}
	pl.market.look(len(ls.view.domains))
}

// queueOrder sorts the classes: by priority, then classes before the classes that have affinity to them, then classes with rules before
// classes without, then by size.
func (p *Problem) queueOrder() []int {
	depth := p.depths()
	size := p.sizes()
	order := make([]int, len(p.Classes))
	bound := make([]bool, len(order))
	for i := range order {
		order[i] = i
		bound[i] = p.Classes[i].Levels[0].Rules != nil
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if n := cmp.Or(cmp.Compare(p.Classes[b].Priority, p.Classes[a].Priority), cmp.Compare(depth[a], depth[b])); n != 0 {
			return n
		}
		if bound[a] != bound[b] {
			if bound[a] {
				return -1
			}
			return 1
		}
		return cmp.Compare(size[b], size[a])
	})
	return order
}

// sizes returns the size of each class's request, relative to scale.
func (p *Problem) sizes() []float64 {
	out := make([]float64, len(p.Classes))
	if len(out) == 0 {
		return out
	}
	scale := p.scale()
	for i := range out {
		out[i] = measure(p.Classes[i].Request, scale)
	}
	return out
}

// scale returns, of each resource, the most that a node has free or, without nodes, that a class requests; at least 1.
func (p *Problem) scale() []float64 {
	scale := make([]float64, len(p.Classes[0].Request))
	for d := range scale {
		scale[d] = 1
	}
	raise := func(v capacity.Vector) {
		for d, n := range v {
			if n < capacity.Most {
				scale[d] = max(scale[d], float64(n))
			}
		}
	}
	for i := range p.Nodes {
		raise(p.Nodes[i].Free)
	}
	if len(p.Nodes) == 0 {
		for i := range p.Classes {
			raise(p.Classes[i].Request)
		}
	}
	return scale
}

func measure(v capacity.Vector, scale []float64) float64 {
	sum := 0.0
	for d := range v {
		if v[d] < capacity.Most {
			sum += float64(float64(max(0, v[d])) / scale[d])
		}
	}
	return sum
}

// depths returns the length of the chain of affinities that starts at each class: 0 for a class without affinity to other classes.
func (p *Problem) depths() []int {
	members := make([][]int, len(p.Layout.Sets))
	for c := range p.Classes {
		for l := range p.Classes[c].Levels {
			if r := p.Classes[c].Levels[l].Rules; r != nil {
				for _, set := range r.Sets {
					if n := len(members[set]); n == 0 || members[set][n-1] != c {
						members[set] = append(members[set], c)
					}
				}
			}
		}
	}
	depth := make([]int, len(p.Classes))
	state := make([]int8, len(p.Classes)) // 1 during its visit, 2 once its depth is known
	var visit func(c int) int
	visit = func(c int) int {
		if state[c] != 0 {
			return depth[c]
		}
		state[c] = 1
		seen := map[int]bool{}
		for l := range p.Classes[c].Levels {
			r := p.Classes[c].Levels[l].Rules
			if r == nil {
				continue
			}
			for _, a := range r.Affinity {
				if seen[a.Set] {
					continue
				}
				seen[a.Set] = true
				for _, m := range members[a.Set] {
					if m != c && state[m] != 1 {
						depth[c] = max(depth[c], visit(m)+1)
					}
				}
			}
		}
		state[c] = 2
		return depth[c]
	}
	for c := range p.Classes {
		visit(c)
	}
	return depth
}

// placeClass places as many pods of the class as possible.
func (pl *placement) placeClass(c int) {
	class := &pl.p.Classes[c]
	state := &pl.classes[c]
	if state.next == class.Count {
		return
	}
	for l := range class.Levels {
		if pl.prepare(c, l); pl.p.spent() {
			return
		}
	}
	if state.levels[0].free && len(class.Levels) == 1 {
		pl.placeFree(c)
		return
	}
	for state.next < class.Count && !pl.p.spent() {
		if !pl.placeOne(c) {
			return
		}
	}
}

func (pl *placement) prepare(c, l int) {
	ls := &pl.classes[c].levels[l]
	if ls.ready {
		return
	}
	level := &pl.p.Classes[c].Levels[l]
	ls.ready = true
	ls.rules = level.Rules
	if ls.rules == nil {
		ls.rules = noRules
	}
	pl.market.look(ls.rules.Len())
	ls.view = pl.viewOf(ls.rules.Interest(&pl.p.Layout))
	ls.host = pl.reader.hostRulesOf(level.Rules, pl.p.Classes[c].Shared)
	ls.free = len(ls.view.keys) == 0 && len(pl.p.Classes[c].Shared) == 0 && ls.host.none() && !ls.rules.ByHost(&pl.p.Layout)
}

// placeFree places pods without rules: on the fullest nodes first, the rest on new machines.
func (pl *placement) placeFree(c int) {
	class := &pl.p.Classes[c]
	state := &pl.classes[c]
	for _, n := range pl.candidates(c, 0) {
		left := class.Count - state.next
		k := class.Request.Times(pl.nodes.list[n].room, left)
		if k == 0 {
			continue
		}
		pl.onNode(c, 0, n, k)
	}
	left := class.Count - state.next
	if left == 0 {
		return
	}
	if choices := pl.choicesOf(c, 0); len(choices) > 0 {
		pl.onNew(c, 0, choices[0], left)
	}
}

// placeOne places the next pod of the class; ok is false if it has no place.
func (pl *placement) placeOne(c int) (ok bool) {
	class := &pl.p.Classes[c]
	if class.Assigned > 0 && pl.nodes.needs(c, class.Assigned-1).Fits(pl.nodes.list[class.Assigned-1].room) && pl.placeOnAssigned(c) {
		return true // possible because of pods placed since then
	}
	best := candidate{cost: math.Inf(1)}
	for l := range class.Levels {
		if pl.p.spent() {
			return false
		}
		found := pl.findNode(c, l)
		if found.node < 0 {
			found = pl.findDomain(c, l)
		}
		if found.node < 0 && found.choice == nil {
			continue
		}
		if !pl.p.Weighted {
			best = found
			break
		}
		if found.cost += class.Levels[l].Miss; found.cost < best.cost-1e-12 {
			best = found
		}
	}
	switch {
	case best.choice != nil:
		pl.onNew(c, best.level, *best.choice, pl.batch(c, best.level))
	case best.cost < math.Inf(1):
		pl.onNode(c, best.level, best.node, 1)
	default:
		return false
	}
	return true
}

// batch returns the number of pods of the class that are placed together in the same way: all of them if the rules do not depend on domains.
func (pl *placement) batch(c, l int) int {
	ls := &pl.classes[c].levels[l]
	if len(ls.view.keys) > 0 || pl.p.Weighted {
		return 1
	}
	if len(ls.rules.Affinity)+len(ls.rules.Sets) > 0 {
		return 1
	}
	n := pl.p.Classes[c].Count - pl.classes[c].next
	if most, capped := pl.lessons.caps[domainKey{c, l, 0}]; capped {
		n = min(n, most-pl.inItem(domainKey{c, l, 0}))
	}
	return n
}

func (pl *placement) inItem(key domainKey) int {
	if d := pl.byKey[key]; d != nil {
		return len(d.queue)
	}
	return 0
}

// candidate is a place that one pod could take.
type candidate struct {
	level  int
	node   int // -1 for a new machine
	choice *domainChoice
	cost   float64 // the price above the cheapest domain's, as a share of that price, plus Miss; for a node, -1 plus Miss
}

// learnedLimits holds the facts that a round found out for the next one.
type learnedLimits struct {
	// caps bounds the pods of a class on new machines in a domain.
	caps map[domainKey]int
	// open holds groups and domains in which machines were started, though no pod with the group's spread could use them.
	open map[[2]int]bool
	// shut holds groups and domains in which machines could have been started, but none was. As empty domains they kept pods from having a
	// place.
	shut map[[2]int]bool
	// zero holds host groups of which some new machine has no pod.
	zero bitset.Set
	// awaited holds nodes that got their assigned pods late, after others were placed. Affinity ignores the victims of these pods.
	awaited bitset.Set
	// arrived holds the machines that the last round started, each as the places in which it may turn out to be. It is set only if their
	// residents count for rules.
	arrived [][]topology.Place
	// ranked is true once room has run short: then machines are bought for pods of higher priority first.
	ranked bool
	// quota is the greatest number of pods that a class may have on new machines in a domain. domainSearch sets it.
	quota map[domainKey]int
	// onNodes lists the pods that are put on nodes first, from fillNodes.
	onNodes []nodeLoad
	// frame is nil before the first round.
	frame *frame
}

type domainKey struct{ class, level, domain int }

type dependant struct{ class, level int }

// classState is the state of one class in a round.
type classState struct {
	next   int // the first pod that has no place yet
	levels []levelState
}
