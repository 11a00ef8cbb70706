package packing

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/topology"
)

// item is what is to be bought for: some pods of one class, at one level, on new machines in one spot.
type item struct {
	class, level, spot int
	single             bool // the view has no other spot
	ways               *Ways
	place              topology.Place
	rules              *topology.Rules
	host               *hostRules
	request            capacity.Vector
	own                capacity.Vector // the request without what others may have brought to the machine
	queue              []int           // the pods, in the order in which they are placed
	left               int             // how many of them have no machine yet
	company            []int           // sets of which a pod has to be on the same machine
}

// levelState is what has been worked out for one level of a class.
type levelState struct {
	ready     bool
	view      *view
	host      *hostRules
	rules     *topology.Rules
	free      bool // no rule at all: pods need not be looked at one by one
	nodes     []int
	nodesRead bool
	spots     []spotChoice
	spotsRead bool
}

// spotChoice is a spot in which a new machine can hold a pod of the class.
type spotChoice struct {
	spot   int
	tier   int     // rank of the heaviest pool there
	dear   float64 // by how much what the pods need costs more than in the cheapest spot, as a share of that
	ways   *Ways
	wanted bool // followers can come along
}

type narrowKey struct {
	ways *Ways
	view *view
	spot int
}

var noRules = &topology.Rules{}

// settle finds for every pod an existing node, or a spot in which to buy a machine for it. Pods that wait for others are
// tried again as long as anything moves.
func (s *solver) settle() {
	s.knowDomains()
	s.settleHomes()
	s.openDomains()
	order := s.queueOrder()
	for moved := true; moved; {
		moved = false
		for _, c := range order {
			before := s.classes[c].next
			s.settleClass(c)
			moved = moved || s.classes[c].next > before
		}
	}
}

// knowDomains tells the world of the domains that new machines brought in earlier rounds.
func (s *solver) knowDomains() {
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

// openDomains tells the world which domains new machines can open for those who count them.
func (s *solver) openDomains() {
	type seen struct {
		group int
		ways  *Ways
	}
	done := map[seen]bool{}
	for c := range s.p.Classes {
		class := &s.p.Classes[c]
		for l := range class.Levels {
			rules := class.Levels[l].Rules
			if rules == nil {
				continue
			}
			for _, sp := range rules.Spread {
				s.host.owned[sp.Group] = true
				if key := (seen{sp.Group, class.Levels[l].Ways}); !done[key] || len(s.lessons.caps) > 0 {
					done[key] = true
					s.openFor(sp.Group, c, l)
				}
			}
		}
	}
}

// openFor opens the domains in which new machines can hold the class. Where none could be bought the last time, none is
// opened.
func (s *solver) openFor(group, c, l int) {
	s.prepare(c, l)
	ls := &s.classes[c].levels[l]
	ways, request := s.p.Classes[c].Levels[l].Ways, s.p.Classes[c].Request
	done := bitset.New(len(s.p.Places))
	for i := range s.p.Places {
		if most, capped := s.lessons.caps[spotKey{c, l, ls.view.spotOf[i]}]; capped && most == 0 {
			done.Add(i)
		}
	}
	for p := range s.pools {
		sh := &s.pools[p]
		for i := range ways.Pools[p] {
			way := &ways.Pools[p][i]
			for o := way.Options.Next(0); o >= 0; o = way.Options.Next(o + 1) {
				option := &sh.Options[o]
				if option.Listed && !done.Has(option.Place) && !s.isShut(group, s.p.Places[option.Place]) && request.Fits(option.Allocatable) && s.affordable(p, o) {
					done.Add(option.Place)
					s.world.Open(group, s.p.Places[option.Place])
				}
			}
		}
	}
}

// isShut reports whether nobody has opened the place's domain when it could be.
func (s *solver) isShut(group int, place topology.Place) bool {
	key := s.p.Layout.Groups[group].Key
	return len(s.lessons.shut) > 0 && key != topology.Host && s.lessons.shut[[2]int{group, int(place[key])}]
}

// affordable reports whether the pool's limits leave room for one machine of the option.
func (s *solver) affordable(p, o int) bool {
	sh := &s.pools[p]
	return !sh.limited || within(sh.Options[o].Charge, sh.left)
}

// queueOrder sorts the classes: by priority, those that others want to be with before those, those with rules before
// those without, then by size.
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

// sizes measures the classes' requests by what the existing nodes have left at most.
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

// scale is, of each resource, the most that a node or option has.
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

// depths says how long the chain of affinities is that ends at each class: what others want to be with comes first.
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
	state := make([]int8, len(s.p.Classes)) // 1 while it is being looked at, 2 when it is known
	var visit func(c int) int
	visit = func(c int) int {
		if state[c] != 0 {
			return depth[c]
		}
		state[c] = 1
		for l := range s.p.Classes[c].Levels {
			r := s.p.Classes[c].Levels[l].Rules
			if r == nil {
				continue
			}
			for _, a := range r.Affinity {
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

// settleClass places as many pods of the class as can be.
func (s *solver) settleClass(c int) {
	class := &s.p.Classes[c]
	state := &s.classes[c]
	if state.next == class.Count {
		return
	}
	for l := range class.Levels {
		s.prepare(c, l)
	}
	if state.levels[0].free && len(class.Levels) == 1 {
		s.settleFree(c)
		return
	}
	for state.next < class.Count {
		if !s.settleOne(c) {
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
	ls.view = s.views.of(ls.rules.Interest(&s.p.Layout))
	ls.host = s.hostRulesOf(level.Rules, s.p.Classes[c].Shared)
	ls.free = len(ls.view.keys) == 0 && len(s.p.Classes[c].Shared) == 0 && ls.host.none() && !ls.rules.ByHost(&s.p.Layout)
}

// settleFree places pods that mind nobody: the fullest nodes first, the rest on new machines.
func (s *solver) settleFree(c int) {
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
	if spots := s.spotsOf(c, 0); len(spots) > 0 {
		s.onNew(c, 0, spots[0], left)
	}
}

// settleOne places the next pod of the class; ok is false if it has no place.
func (s *solver) settleOne(c int) (ok bool) {
	class := &s.p.Classes[c]
	if class.Home > 0 && s.needs(c, class.Home-1).Fits(s.nodes[class.Home-1].room) && s.goHome(c) {
		return true // the others that have come since let it
	}
	best := settled{cost: math.Inf(1)}
	for l := range class.Levels {
		found := s.findNode(c, l)
		if found.node < 0 {
			found = s.findSpot(c, l)
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

// batch is how many pods of the class go the same way at once: all of them if the rules do not look at spots.
func (s *solver) batch(c, l int) int {
	ls := &s.classes[c].levels[l]
	if len(ls.view.keys) > 0 || s.p.Weighted {
		return 1
	}
	if len(ls.rules.Affinity)+len(ls.rules.Sets) > 0 {
		return 1
	}
	n := s.p.Classes[c].Count - s.classes[c].next
	if most, capped := s.lessons.caps[spotKey{c, l, 0}]; capped {
		n = min(n, most-s.inItem(spotKey{c, l, 0}))
	}
	return n
}

func (s *solver) inItem(key spotKey) int {
	if it := s.byKey[key]; it != nil {
		return len(it.queue)
	}
	return 0
}

// settled is a place for one pod.
type settled struct {
	level  int
	node   int // -1 for a new machine
	choice *spotChoice
	cost   float64 // share of the pod's worth that has to be paid
}

// candidates lists the nodes that admit the class at the level and had room when they were first looked at, the fullest
// first.
func (s *solver) candidates(c, l int) []int {
	ls := &s.classes[c].levels[l]
	if ls.nodesRead {
		return ls.nodes
	}
	ls.nodesRead = true
	class := &s.p.Classes[c]
	admitted := class.Levels[l].Nodes
	for _, n := range s.roomyNodes() {
		if admitted.Has(n) && s.needs(c, n).Fits(s.nodes[n].room) && !s.clashes(ls.host, n) {
			ls.nodes = append(ls.nodes, n)
		}
	}
	return ls.nodes
}

// roomyNodes lists the nodes that have room for the least that any class asks for, the fullest first.
func (s *solver) roomyNodes() []int {
	if s.roomyRead {
		return s.roomy
	}
	s.roomyRead = true
	if len(s.nodes) == 0 || len(s.p.Classes) == 0 {
		return nil
	}
	least := s.p.Classes[0].Request.Clone()
	for i := range s.p.Classes {
		least.Min(s.p.Classes[i].Request)
	}
	for i := range s.p.Classes {
		for _, shared := range s.p.Classes[i].Shared {
			least[shared.Resource] = 0 // where somebody has it already, it takes nothing
		}
	}
	scale := s.scale()
	room := make([]float64, len(s.nodes))
	for n := range s.nodes {
		if least.Fits(s.nodes[n].room) {
			room[n] = measure(s.nodes[n].room, scale)
			s.roomy = append(s.roomy, n)
		}
	}
	slices.SortFunc(s.roomy, func(a, b int) int { return cmp.Or(cmp.Compare(room[a], room[b]), cmp.Compare(a, b)) })
	return s.roomy
}

func (s *solver) clashes(r *hostRules, n int) bool {
	return meets(r.shuns, s.nodes[n].bears) || meets(r.bears, s.nodes[n].shuns)
}

// findNode looks for an existing node for one more pod of the class. Nodes that can never take another one are
// forgotten.
func (s *solver) findNode(c, l int) settled {
	none := settled{level: l, node: -1}
	ls := &s.classes[c].levels[l]
	list := s.candidates(c, l)
	if len(list) == 0 {
		return none
	}
	class := &s.p.Classes[c]
	whole := s.startsByHost(ls)
	allowed := make([]int8, len(ls.view.spots)) // 0 not asked, 1 yes, -1 no
	kept := list[:0]
	found := -1
	for i, n := range list {
		node := &s.nodes[n]
		if !s.needs(c, n).Fits(node.room) || s.clashes(ls.host, n) {
			continue
		}
		kept = append(kept, n)
		if whole && class.Request.Times(node.room, class.Count) < class.Count-s.classes[c].next && s.buyable(c, l) {
			continue
		}
		spot := ls.view.spotOf[node.place]
		if allowed[spot] == 0 {
			allowed[spot] = -1
			if _, ok := s.world.Allows(ls.rules, s.p.Places[node.place]); ok && !slices.Contains(ls.view.spots[spot], topology.Open) &&
				!s.confines(c, l, s.p.Places[node.place]) {
				allowed[spot] = 1
			}
		}
		if allowed[spot] > 0 && s.hostAllows(ls, n) {
			found = n
			kept = append(kept, list[i+1:]...)
			break
		}
	}
	ls.nodes = kept
	if found < 0 {
		return none
	}
	return settled{level: l, node: found, cost: -1}
}

// startsByHost reports whether the next pod decides on which machine all its companions have to run.
func (s *solver) startsByHost(ls *levelState) bool {
	for i := range ls.rules.Affinity {
		if a := &ls.rules.Affinity[i]; s.host.sets[a.Set] >= 0 && s.world.Starts(a) {
			return true
		}
	}
	return false
}

// companyOf lists the sets of which the next pod needs a pod on its own machine.
func (s *solver) companyOf(ls *levelState) []int {
	var sets []int
	for i := range ls.rules.Affinity {
		if a := &ls.rules.Affinity[i]; s.host.sets[a.Set] >= 0 && !s.world.Starts(a) {
			sets = append(sets, a.Set)
		}
	}
	return sets
}

// buyable reports whether some new machine holds all that is left of the class.
func (s *solver) buyable(c, l int) bool {
	all := s.together(c, s.p.Classes[c].Count-s.classes[c].next)
	for _, choice := range s.spotsOf(c, l) {
		if s.cheapestFor(choice.ways, all) {
			return true
		}
	}
	return false
}

// cheapestFor reports whether some listed option holds v.
func (s *solver) cheapestFor(ways *Ways, v capacity.Vector) bool {
	for p := range s.pools {
		for i := range ways.Pools[p] {
			for _, o := range slices.Backward(s.pools[p].byPrice) {
				if ways.Pools[p][i].Options.Has(o) && v.Fits(s.pools[p].Options[o].Allocatable) && s.affordable(p, o) {
					return true
				}
			}
		}
	}
	return false
}

// hostAllows checks the rules that count pods on the node itself.
func (s *solver) hostAllows(ls *levelState, n int) bool {
	node := &s.nodes[n]
	for _, sp := range ls.rules.Spread {
		h := s.host.groups[sp.Group]
		if h < 0 {
			continue
		}
		count := 0
		if s.world.Counts(sp.Group, s.p.Places[node.place]) {
			count = node.groups[h]
		}
		if sp.Self {
			count++
		}
		floor := s.floor(sp.Group, sp.MinDomains)
		if count-floor > sp.MaxSkew {
			return false
		}
		s.relied = s.relied || count > sp.MaxSkew
	}
	for _, set := range s.companyOf(ls) {
		if node.sets[s.host.sets[set]] == 0 {
			return false
		}
	}
	return true
}

// floor is the smallest count of a host group on the existing nodes that it counts; 0 once there will be empty machines.
func (s *solver) floor(group, minDomains int) int {
	if s.p.Layout.Groups[group].Zero || !s.complete && s.lessons.zero.Has(group) {
		return 0
	}
	h := s.host.groups[group]
	least, domains := math.MaxInt, 0
	for i := range s.nodes {
		if s.counts(group, i) {
			least = min(least, s.nodes[i].groups[h])
			domains++
		}
	}
	if domains < max(1, minDomains) {
		return 0
	}
	return least
}

// counts reports whether the group counts the node, or may come to count the machine.
func (s *solver) counts(group, n int) bool {
	node := &s.nodes[n]
	return s.world.Counts(group, s.p.Places[node.place]) ||
		slices.ContainsFunc(node.others, func(place int) bool { return s.world.Counts(group, s.p.Places[place]) })
}

// findSpot looks for a spot in which to buy a machine for one more pod of the class: the most even one that its rules
// allow, then the cheapest.
func (s *solver) findSpot(c, l int) settled {
	out := settled{level: l, node: -1}
	ls := &s.classes[c].levels[l]
	for _, set := range s.companyOf(ls) {
		if s.setLeft[set] == 0 {
			return out // its company runs on nodes that have no room
		}
	}
	spots := s.spotsOf(c, l)
	least := 0
	for i := range spots {
		choice := &spots[i]
		key := spotKey{c, l, choice.spot}
		if most, capped := s.lessons.caps[key]; capped && s.inItem(key) >= most {
			continue
		}
		if most, steered := s.lessons.quota[key]; steered && s.inItem(key) >= most {
			continue
		}
		uneven, ok := s.world.Allows(ls.rules, ls.view.spots[choice.spot])
		if !ok {
			continue
		}
		if out.choice == nil || before(choice, uneven, out.choice, least) {
			out.choice, least = choice, uneven
			out.cost = choice.dear
		}
	}
	return out
}

func before(a *spotChoice, unevenA int, b *spotChoice, unevenB int) bool {
	if a.wanted != b.wanted {
		return a.wanted
	}
	return cmp.Or(cmp.Compare(unevenA, unevenB), cmp.Compare(a.tier, b.tier), cmp.Compare(a.dear, b.dear)) < 0
}

// onNode places the next n pods of the class on a node.
func (s *solver) onNode(c, l, n, count int) {
	state := &s.classes[c]
	var pods []int
	for i := range count {
		pods = append(pods, state.next+i)
		s.order, s.levels = append(s.order, Pod{c, state.next + i}), append(s.levels, l)
	}
	state.next += count
	if k := len(s.placed[n]); k > 0 && s.placed[n][k-1].Class == c {
		s.placed[n][k-1].Pods = append(s.placed[n][k-1].Pods, pods...)
	} else {
		s.placed[n] = append(s.placed[n], Share{c, pods})
	}
	s.occupy(c, l, n, count)
}

// occupy makes the node, and its domains, fuller by some pods of the class.
func (s *solver) occupy(c, l, n, count int) {
	ls := &s.classes[c].levels[l]
	node := &s.nodes[n]
	if ls.free {
		node.room.Add(s.p.Classes[c].Request, -int64(count))
		return
	}
	for range count {
		node.room.Add(s.needs(c, n), -1)
		s.bring(c, n)
	}
	place := s.p.Places[node.place]
	s.world.Put(ls.rules, place, count)
	node.bears, node.shuns = union(node.bears, ls.host.bears), union(node.shuns, s.shunned(c, ls))
	for _, g := range ls.rules.Groups {
		if h := s.host.groups[g]; h >= 0 && s.world.Counts(g, place) {
			node.groups[h] += count
		}
	}
	for _, set := range ls.rules.Sets {
		if h := s.host.sets[set]; h >= 0 {
			node.sets[h] += count
		}
	}
}

// shunned are the marks that a pod of the class keeps off its node: in the end only those that it has to.
func (s *solver) shunned(c int, ls *levelState) bitset.Set {
	if !s.complete {
		return ls.host.shuns
	}
	last := len(s.p.Classes[c].Levels) - 1
	s.prepare(c, last)
	return s.classes[c].levels[last].host.shuns
}

// onNew puts the next n pods of the class down for new machines in a spot.
func (s *solver) onNew(c, l int, choice spotChoice, count int) {
	state := &s.classes[c]
	ls := &state.levels[l]
	key := spotKey{c, l, choice.spot}
	company := s.companyOf(ls)
	it := s.byKey[key]
	if it == nil || !slices.Equal(it.company, company) {
		it = &item{
			class: c, level: l, spot: choice.spot, single: len(ls.view.spots) == 1, ways: choice.ways,
			place: ls.view.spots[choice.spot], rules: ls.rules, host: ls.host, request: s.p.Classes[c].Request, own: s.own[c], company: company,
		}
		s.byKey[key] = it
		s.items = append(s.items, it)
	}
	for i := range count {
		it.queue = append(it.queue, state.next+i)
		s.order, s.levels = append(s.order, Pod{c, state.next + i}), append(s.levels, l)
	}
	it.left += count
	state.next += count
	if ls.free {
		return
	}
	s.world.Put(ls.rules, it.place, count)
	for _, set := range ls.rules.Sets {
		s.setLeft[set] += count
	}
}
