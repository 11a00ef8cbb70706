package packing

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine/capacity"
	"tenon.sh/engine/topology"
)

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
	left                 int             // how many of them have no machine yet
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

var noRules = &topology.Rules{}

// placePods finds for every pod an existing node, or a domain in which to buy a machine for it. Pods that wait for others are tried again
// as long as any pod is placed.
func (s *solver) placePods() {
	s.knowDomains()
	s.placeAssigned()
	s.openDomains()
	order := s.queueOrder()
	s.placeFillings()
	for moved := true; moved; {
		moved = false
		for _, c := range order {
			before := s.classes[c].next
			s.placeClass(c)
			moved = moved || s.classes[c].next > before
		}
		if s.p.spent() {
			break
		}
	}
}

// knowDomains adds to the world the domains, and the residents, that new machines brought in earlier rounds.
func (s *solver) knowDomains() {
	for _, places := range s.lessons.arrived {
		s.world.Arrive(places, false)
	}
	for g := range s.p.Layout.Groups {
		group := &s.p.Layout.Groups[g]
		if group.Key == topology.Host {
			continue
		}
		for d := range s.p.Layout.Domains[group.Key] {
			if s.lessons.open[[2]int{g, d}] {
				s.world.OpenDomain(g, d)
			}
		}
	}
}

// openDomains adds to the world the domains that new machines can open, for the spreads that count them.
func (s *solver) openDomains() {
	type seen struct {
		group int
		ways  *Ways
	}
	done, capped := map[seen]bool{}, map[dependant]bool{}
	for key := range s.lessons.caps {
		capped[dependant{key.class, key.level}] = true
	}
	for c := range s.p.Classes {
		class := &s.p.Classes[c]
		for l := range class.Levels {
			rules := class.Levels[l].Rules
			if rules == nil || s.p.spent() {
				continue
			}
			for _, sp := range rules.Spread {
				s.host.owned[sp.Group] = true
				if key := (seen{sp.Group, class.Levels[l].Ways}); !done[key] || capped[dependant{c, l}] {
					done[key] = done[key] || !capped[dependant{c, l}]
					s.openFor(sp.Group, c, l)
				}
			}
		}
	}
}

// openFor opens the domains in which new machines can hold the class, except the domains in which none could be bought in the last round.
func (s *solver) openFor(group, c, l int) {
	s.prepare(c, l)
	ls := &s.classes[c].levels[l]
	for domain, sold := range s.sold(c, l).domains {
		if !sold.ok || s.isShut(group, ls.view.domains[domain]) {
			continue
		}
		if most, capped := s.lessons.caps[domainKey{c, l, domain}]; !capped || most > 0 {
			s.world.Open(group, ls.view.domains[domain])
		}
	}
	s.look(len(ls.view.domains))
}

// queueOrder sorts the classes: by priority, then classes before the classes that have affinity to them, then classes with rules before
// classes without, then by size.
func (s *solver) queueOrder() []int {
	depth := s.depths()
	size := s.sizes()
	order := make([]int, len(s.p.Classes))
	bound := make([]bool, len(order))
	for i := range order {
		order[i] = i
		bound[i] = s.p.Classes[i].Levels[0].Rules != nil
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if n := cmp.Or(cmp.Compare(s.p.Classes[b].Priority, s.p.Classes[a].Priority), cmp.Compare(depth[a], depth[b])); n != 0 {
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
func (s *solver) sizes() []float64 {
	out := make([]float64, len(s.p.Classes))
	if len(out) == 0 {
		return out
	}
	scale := s.scale()
	for i := range out {
		out[i] = measure(s.p.Classes[i].Request, scale)
	}
	return out
}

// scale returns, of each resource, the most that a node has free or, without nodes, that a class requests; at least 1.
func (s *solver) scale() []float64 {
	scale := make([]float64, len(s.p.Classes[0].Request))
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
	for i := range s.p.Nodes {
		raise(s.p.Nodes[i].Free)
	}
	if len(s.p.Nodes) == 0 {
		for i := range s.p.Classes {
			raise(s.p.Classes[i].Request)
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
func (s *solver) depths() []int {
	members := make([][]int, len(s.p.Layout.Sets))
	for c := range s.p.Classes {
		for l := range s.p.Classes[c].Levels {
			if r := s.p.Classes[c].Levels[l].Rules; r != nil {
				for _, set := range r.Sets {
					if n := len(members[set]); n == 0 || members[set][n-1] != c {
						members[set] = append(members[set], c)
					}
				}
			}
		}
	}
	depth := make([]int, len(s.p.Classes))
	state := make([]int8, len(s.p.Classes)) // 1 during its visit, 2 once its depth is known
	var visit func(c int) int
	visit = func(c int) int {
		if state[c] != 0 {
			return depth[c]
		}
		state[c] = 1
		seen := map[int]bool{}
		for l := range s.p.Classes[c].Levels {
			r := s.p.Classes[c].Levels[l].Rules
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
	for c := range s.p.Classes {
		visit(c)
	}
	return depth
}

// placeClass places as many pods of the class as possible.
func (s *solver) placeClass(c int) {
	class := &s.p.Classes[c]
	state := &s.classes[c]
	if state.next == class.Count {
		return
	}
	for l := range class.Levels {
		if s.prepare(c, l); s.p.spent() {
			return
		}
	}
	if state.levels[0].free && len(class.Levels) == 1 {
		s.placeFree(c)
		return
	}
	for state.next < class.Count && !s.p.spent() {
		if !s.placeOne(c) {
			return
		}
	}
}

func (s *solver) prepare(c, l int) {
	ls := &s.classes[c].levels[l]
	if ls.ready {
		return
	}
	level := &s.p.Classes[c].Levels[l]
	ls.ready = true
	ls.rules = level.Rules
	if ls.rules == nil {
		ls.rules = noRules
	}
	s.look(ls.rules.Len())
	ls.view = s.viewOf(ls.rules.Interest(&s.p.Layout))
	ls.host = s.hostRulesOf(level.Rules, s.p.Classes[c].Shared)
	ls.free = len(ls.view.keys) == 0 && len(s.p.Classes[c].Shared) == 0 && ls.host.none() && !ls.rules.ByHost(&s.p.Layout)
}

// placeFree places pods without rules: on the fullest nodes first, the rest on new machines.
func (s *solver) placeFree(c int) {
	class := &s.p.Classes[c]
	state := &s.classes[c]
	for _, n := range s.candidates(c, 0) {
		left := class.Count - state.next
		k := class.Request.Times(s.nodes[n].room, left)
		if k == 0 {
			continue
		}
		s.onNode(c, 0, n, k)
	}
	left := class.Count - state.next
	if left == 0 {
		return
	}
	if choices := s.choicesOf(c, 0); len(choices) > 0 {
		s.onNew(c, 0, choices[0], left)
	}
}

// placeOne places the next pod of the class; ok is false if it has no place.
func (s *solver) placeOne(c int) (ok bool) {
	class := &s.p.Classes[c]
	if class.Assigned > 0 && s.needs(c, class.Assigned-1).Fits(s.nodes[class.Assigned-1].room) && s.placeOnAssigned(c) {
		return true // possible because of pods placed since then
	}
	best := placement{cost: math.Inf(1)}
	for l := range class.Levels {
		if s.p.spent() {
			return false
		}
		found := s.findNode(c, l)
		if found.node < 0 {
			found = s.findDomain(c, l)
		}
		if found.node < 0 && found.choice == nil {
			continue
		}
		if !s.p.Weighted {
			best = found
			break
		}
		if found.cost += class.Levels[l].Miss; found.cost < best.cost-1e-12 {
			best = found
		}
	}
	switch {
	case best.choice != nil:
		s.onNew(c, best.level, *best.choice, s.batch(c, best.level))
	case best.cost < math.Inf(1):
		s.onNode(c, best.level, best.node, 1)
	default:
		return false
	}
	return true
}

// batch returns how many pods of the class are placed in the same way at once: all of them if the rules do not depend on domains.
func (s *solver) batch(c, l int) int {
	ls := &s.classes[c].levels[l]
	if len(ls.view.keys) > 0 || s.p.Weighted {
		return 1
	}
	if len(ls.rules.Affinity)+len(ls.rules.Sets) > 0 {
		return 1
	}
	n := s.p.Classes[c].Count - s.classes[c].next
	if most, capped := s.lessons.caps[domainKey{c, l, 0}]; capped {
		n = min(n, most-s.inItem(domainKey{c, l, 0}))
	}
	return n
}

func (s *solver) inItem(key domainKey) int {
	if d := s.byKey[key]; d != nil {
		return len(d.queue)
	}
	return 0
}

// placement is a place for one pod.
type placement struct {
	level  int
	node   int // -1 for a new machine
	choice *domainChoice
	cost   float64 // price beyond the cheapest domain's, as a share of it, and Miss; for a node, -1 instead of the price
}
