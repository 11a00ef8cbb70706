package packing

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/topology"
)

// mostRounds bounds the rounds in which a problem is solved.
const mostRounds = 6

// Solve places as many pods as it can: first on existing nodes, then on new machines, as cheaply as it can, from the heaviest pool to the
// lightest. The same problem always has the same solution.
//
// The places of other pods decide if a rule between pods is met, and the number of machines that can be bought is known only after they are
// bought. So a problem is solved in rounds: each places pod by pod with exact counts, then buys machines. If a machine cannot be bought as
// planned, the next round learns from it. The solution is that of the best round.
func Solve(p *Problem) *Solution {
	own := *p
	own.looked = &atomic.Int64{}
	p = &own
	if p.hasPreferences() {
		return p.solvePreferences().finish()
	}
	return p.solve().finish()
}

func (p *Problem) solve() *solver {
	best := p.solveLevels()
	if p.spent() || !best.inTheWay() {
		return best
	}
	// One pod's preferences must not keep another pod from having a place.
	if others := p.plain().solveLevels(); slices.CompareFunc(others.without(), best.without(), func(a, b rank) int { return a.count - b.count }) < 0 {
		return others
	}
	return best
}

// inTheWay reports whether a pod has no place although it fits a machine or node, and preferences may be the reason. These are the pod's own or,
// because of limits, quotas or rules between pods, those of other pods.
func (s *solver) inTheWay() bool {
	left := make([]int, len(s.p.Classes))
	s.countLeft(left)
	for c, n := range left {
		last := len(s.p.Classes[c].Levels) - 1
		if n == 0 || !slices.ContainsFunc(s.p.Classes, func(other Class) bool { return len(other.Levels) > 1 }) {
			continue
		}
		if s.placement.prepare(c, last); len(s.placement.choicesOf(c, last))+len(s.placement.candidates(c, last)) == 0 {
			continue
		}
		if last > 0 || len(s.p.Quotas) > 0 || slices.ContainsFunc(s.market.pools, func(pool supplyPool) bool { return pool.limited }) {
			return true
		}
		for i := range s.p.Classes {
			if other := s.p.Classes[i].Levels; len(other) > 1 && minds(s.placement.classes[c].levels[last].rules, other[len(other)-1].Rules) {
				return true
			}
		}
	}
	return false
}

// minds reports whether a pod with the rules r depends on the places of pods with the rules in others.
func minds(r, others *topology.Rules) bool {
	if others == nil {
		return false
	}
	return slices.ContainsFunc(r.Spread, func(sp topology.Spread) bool { return slices.Contains(others.Groups, sp.Group) }) ||
		slices.ContainsFunc(r.Affinity, func(a topology.Affinity) bool { return slices.Contains(others.Sets, a.Set) }) ||
		slices.ContainsFunc(r.Rejects, func(m int) bool { return slices.Contains(others.Owns, m) }) ||
		meets(r.HostRejects, others.HostOwns)
}

// plain returns the problem without preferences.
func (p *Problem) plain() *Problem {
	out := *p
	out.Classes = slices.Clone(p.Classes)
	for c := range out.Classes {
		out.Classes[c].Levels = out.Classes[c].Levels[len(out.Classes[c].Levels)-1:]
	}
	return &out
}

// solveLevels solves the problem in rounds.
func (p *Problem) solveLevels() *solver {
	l := &learnedLimits{caps: map[domainKey]int{}, open: map[[2]int]bool{}, shut: map[[2]int]bool{}, zero: bitset.New(len(p.Layout.Groups)), awaited: bitset.New(len(p.Nodes))}
	var best, plain *solver // plain is the best before fillNodes
	var before *learnedLimits
	for round := range mostRounds {
		s := newSolver(p, l, 0)
		s.placement.placePods()
		if s.exhausted = p.spent(); s.exhausted && best != nil { // a complete round is better than this part of one
			break
		}
		if s.exhausted {
			p.Effort, s.market.effort = 0, 0 // the plan is not worth improving
		}
		s.buyMachines()
		learned := s.learn()
		s.replay()
		learned = s.learnArrivals() || learned
		if best == nil || s.better(best) {
			best = s
		}
		if !learned {
			if plain != nil || round == mostRounds-1 || p.stopped() {
				break
			}
			before = l.clone()
			if l.onNodes = s.fillNodes(); l.onNodes == nil {
				break
			}
			plain = best
		}
		if p.stopped() || p.spent() {
			break
		}
	}
	best.exhausted = best.exhausted || best.broken && p.spent()
	if plain != nil && best == plain {
		l = before
	}
	return searchDomains(p, l, best)
}

func (l *learnedLimits) clone() *learnedLimits {
	out := *l
	out.caps, out.open, out.shut, out.quota = maps.Clone(l.caps), maps.Clone(l.open), maps.Clone(l.shut), maps.Clone(l.quota)
	out.zero, out.awaited, out.arrived = l.zero.Clone(), l.awaited.Clone(), slices.Clone(l.arrived)
	return &out
}

// newSolver begins a round. Its list of nodes has capacity for "more" further nodes.
func newSolver(p *Problem, l *learnedLimits, more int) *solver {
	m := &market{p: p, effort: p.Effort, quotas: slices.Clone(p.Quotas), pools: make([]supplyPool, len(p.Pools))}
	s := &solver{p: p, market: m}
	s.placement = placement{
		p: p, market: m, lessons: l, world: topology.NewWorld(&p.Layout), placed: make([][]Share, len(p.Nodes)), byKey: map[domainKey]*demand{}, narrow: map[narrowKey]*Ways{},
		setLeft: make([]int, len(p.Layout.Sets)), unserved: map[int]*unserved{},
	}
	host := &s.placement.host
	s.placement.nodes = nodeStates{p: p, world: s.placement.world, host: host}
	s.placement.reader = hostReader{p: p, host: host, hostIDs: map[string]*hostRules{}}
	s.search = search{p: p, market: m, host: &s.placement.host, boundDemands: s.placement.boundDemands}
	s.listing = listing{p: p, market: m, free: func(class int) bool { return s.placement.classes[class].levels[0].free }}
	s.placement.host.build(&p.Layout)
	s.placement.reader.countSharers()
	if l.frame == nil {
		l.frame = newFrame(p, s.placement.reader.own)
	}
	s.placement.followers, s.placement.members, s.placement.shapeOf = l.frame.followers, l.frame.members, l.frame.shapeOf
	s.placement.nodes.list = newNodeStates(p.Nodes, &s.placement.host, more)
	for i := range p.Pools {
		s.market.pools[i] = l.frame.pools[i]
		s.market.pools[i].left = p.Pools[i].Left.Clone()
	}
	s.placement.classes = make([]classState, len(p.Classes))
	levels := 0
	for i := range p.Classes {
		levels += len(p.Classes[i].Levels)
	}
	all := make([]levelState, levels)
	for i := range s.placement.classes {
		n := len(p.Classes[i].Levels)
		s.placement.classes[i].levels, all = all[:n:n], all[n:]
	}
	return s
}

func newFrame(p *Problem, own []capacity.Vector) *frame {
	f := &frame{followers: make([][]dependant, len(p.Layout.Sets)), members: make([]int, len(p.Layout.Groups)), quotas: p.Quotas, heaviest: math.MaxInt, sales: map[saleKey]*sale{}}
	for i := range p.Pools {
		f.pools = append(f.pools, newSupplyPool(p, &p.Pools[i]))
		f.heaviest = min(f.heaviest, -p.Pools[i].Weight)
	}
	f.fresh = p.fresh()
	shapes := map[string]int{}
	for i := range p.Classes {
		c := &p.Classes[i]
		counted := bitset.New(len(p.Layout.Groups))
		for l := range c.Levels {
			r := c.Levels[l].Rules
			if r == nil {
				continue
			}
			for _, a := range r.Affinity {
				f.followers[a.Set] = append(f.followers[a.Set], dependant{i, l})
			}
			for _, g := range r.Groups {
				counted.Add(g)
			}
		}
		for g := counted.Next(0); g >= 0; g = counted.Next(g + 1) {
			f.members[g]++
		}
		text := c.Request.Text()
		if len(c.Shared) > 0 {
			text += own[i].Text()
		}
		if _, ok := shapes[text]; !ok {
			shapes[text] = len(shapes)
		}
		f.shapeOf = append(f.shapeOf, shapes[text])
	}
	return f
}

// tiers groups the pools by weight, heaviest first.
func (s *solver) tiers() [][]int {
	weights := map[int][]int{}
	var order []int
	for i, p := range s.p.Pools {
		if _, ok := weights[p.Weight]; !ok {
			order = append(order, p.Weight)
		}
		weights[p.Weight] = append(weights[p.Weight], i)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(b, a) })
	tiers := make([][]int, 0, len(order))
	for _, w := range order {
		tiers = append(tiers, weights[w])
	}
	return tiers
}

// buyMachines buys machines for the pods that placePods has left without a node, from the heaviest pools to the lightest.
func (s *solver) buyMachines() {
	s.search.demands = s.placement.demands
	for _, tier := range s.tiers() {
		s.search.buy(tier, s.turns())
	}
	s.listing.makeMachines(s.search.bins)
}

// turns divides the demands into groups that buy machines together: one group for each batch and, once room has run short, for each
// priority, highest first.
func (s *solver) turns() [][]*demand {
	var out [][]*demand
	for _, demands := range s.byPriority() {
		batches := map[int][]*demand{}
		for _, d := range demands {
			b := s.p.Classes[d.class].Batch
			batches[b] = append(batches[b], d)
		}
		for _, b := range slices.Sorted(maps.Keys(batches)) {
			out = append(out, batches[b])
		}
	}
	return out
}

func (s *solver) byPriority() [][]*demand {
	if !s.placement.lessons.ranked {
		return [][]*demand{s.placement.demands}
	}
	var out [][]*demand
	for _, r := range s.placement.unplaced() { // highest first
		var turn []*demand
		for _, d := range s.placement.demands {
			if s.p.Classes[d.class].Priority == r.priority {
				turn = append(turn, d)
			}
		}
		out = append(out, turn)
	}
	return out
}

// learn compares the demands with the machines that could be bought. It reports false if a further round would change nothing.
func (s *solver) learn() bool {
	learned := false
	l := s.placement.lessons
	had := map[domainKey]int{} // one key may have several demands: a pod that starts a set, and the pods that have to join it
	for _, d := range s.placement.demands {
		had[domainKey{d.class, d.level, d.domain}] += len(d.queue) - d.left
	}
	for _, d := range s.placement.demands {
		if d.left == 0 {
			continue
		}
		key := domainKey{d.class, d.level, d.domain}
		bought := had[key]
		last := d.level == len(s.p.Classes[d.class].Levels)-1
		if before, ok := l.caps[key]; (!ok || before > bought) && !(last && d.single) {
			l.caps[key] = bought
			learned = true
		}
	}
	if !l.ranked && s.short() {
		l.ranked, learned = true, true
	}
	if s.opened() || s.placement.cameLate() {
		s.broken, learned = true, true
	}
	return s.leftBehind() || learned
}

// leftBehind notes domains without machines that a spread counted as empty while pods with this spread got no place. It reports whether
// there are new ones.
func (s *solver) leftBehind() bool {
	found := false
	for c := range s.placement.classes {
		if s.placement.classes[c].next == s.p.Classes[c].Count {
			continue
		}
		for l := range s.p.Classes[c].Levels {
			rules := s.p.Classes[c].Levels[l].Rules
			if rules == nil {
				continue
			}
			for _, sp := range rules.Spread {
				for d, count := range s.placement.world.Count(sp.Group) {
					key := [2]int{sp.Group, d}
					if count == 0 && !s.p.Layout.Groups[sp.Group].There.Has(d) && !s.placement.lessons.open[key] && !s.placement.lessons.shut[key] && !s.brought(sp.Group, d) {
						s.placement.lessons.shut[key] = true
						found = true
					}
				}
			}
		}
	}
	return found
}

// brought reports whether some new machine may turn out to be in the domain.
func (s *solver) brought(group, domain int) bool {
	key := s.p.Layout.Groups[group].Key
	return slices.ContainsFunc(s.listing.machines, func(m Machine) bool {
		return slices.ContainsFunc(m.Listed, func(o int) bool {
			place := s.p.Places[s.market.pools[m.Pool].Options[o].Place]
			return int(place[key]) == domain && s.placement.world.Counts(group, place)
		})
	})
}

// short reports whether some pods cannot get machines, and the pods differ in priority.
func (s *solver) short() bool {
	least, most, left := 0, 0, false
	for i, d := range s.placement.demands {
		n := s.p.Classes[d.class].Priority
		if i == 0 || n < least {
			least = n
		}
		if i == 0 || n > most {
			most = n
		}
		left = left || d.left > 0
	}
	return left && least < most
}

// opened records, for the next round, domains and empty machines that this round's new machines add unexpectedly. It reports whether there are any.
func (s *solver) opened() bool {
	found := false
	for g := range s.p.Layout.Groups {
		group := &s.p.Layout.Groups[g]
		if !s.placement.host.owned[g] {
			continue
		}
		if group.Key == topology.Host {
			if s.placement.relied && !s.placement.lessons.zero.Has(g) && len(s.listing.machines) > 0 {
				s.placement.lessons.zero.Add(g)
				found = true
			}
			continue
		}
		there := s.placement.world.Count(g)
		for i := range s.listing.machines {
			m := &s.listing.machines[i]
			for _, o := range m.Listed {
				place := s.p.Places[s.market.pools[m.Pool].Options[o].Place]
				d := int(place[group.Key])
				if d >= 0 && (there[d] < 0 || s.placement.wasClosed(g, d)) && s.placement.world.Counts(g, place) && !s.placement.lessons.open[[2]int{g, d}] {
					s.placement.lessons.open[[2]int{g, d}] = true
					found = true
				}
			}
		}
	}
	return found
}

// better reports whether s is the better round. The better round is the one that is not broken. If both or neither are broken, it is the one that
// places more pods (by priority). After that the fewest missed levels decide, and then the price.
func (s *solver) better(other *solver) bool {
	if s.broken != other.broken {
		return other.broken
	}
	mine, theirs := s.without(), other.without()
	for i := range mine {
		if mine[i].count != theirs[i].count {
			return mine[i].count < theirs[i].count
		}
	}
	if a, b := s.missed(), other.missed(); a != b {
		return a < b
	}
	return s.price() < other.price()
}

// unplaced counts the pods without a place by priority, highest first, while machines are being bought.
func (pl *placement) unplaced() []rank {
	left := make([]int, len(pl.p.Classes))
	for c := range pl.classes {
		left[c] = pl.p.Classes[c].Count - pl.classes[c].next
	}
	for _, d := range pl.demands {
		left[d.class] += d.left
	}
	return pl.p.ranked(left)
}

// without counts the pods without a place by priority, highest first, after the round.
func (s *solver) without() []rank {
	left := make([]int, len(s.p.Classes))
	s.countLeft(left)
	return s.p.ranked(left)
}

// countLeft counts the pods of each class without a place, once the round is over.
func (s *solver) countLeft(left []int) {
	for c := range left {
		left[c] = s.p.Classes[c].Count
	}
	note := func(shares []Share) {
		for _, share := range shares {
			left[share.Class] -= len(share.Pods)
		}
	}
	for _, shares := range s.placement.placed {
		note(shares)
	}
	for i := range s.listing.machines {
		note(s.listing.machines[i].Pods)
	}
}

// ranked adds up the pods of the classes by priority, highest first.
func (p *Problem) ranked(left []int) []rank {
	count := map[int]int{}
	var order []int
	for c, n := range left {
		priority := p.Classes[c].Priority
		if _, ok := count[priority]; !ok {
			order = append(order, priority)
		}
		count[priority] += n
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(b, a) })
	out := make([]rank, 0, len(order))
	for _, priority := range order {
		out = append(out, rank{priority, count[priority]})
	}
	return out
}

// missed adds up the levels that the pods on new machines miss: 0 for a pod at its first level.
func (s *solver) missed() int {
	n := 0
	for _, d := range s.placement.demands {
		n += d.level * (len(d.queue) - d.left)
	}
	return n
}

func (s *solver) price() float64 {
	sum := 0.0
	for i := range s.listing.machines {
		sum += s.market.priceOf(&s.listing.machines[i])
	}
	return sum
}
