package packing

import (
	"maps"
	"math"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/parallel"
)

// mostSteered bounds the rounds that the search may play. steerEffort is the effort that is charged for each of them.
const (
	mostSteered = 400
	steerEffort = 50
)

// domainSearch is a search for better domains for a few pods. A round chooses the domain of a pod before it buys machines. So the last pods of a
// spread, or a whole group that stays together, may be in a domain where they need a machine of their own. For few pods, the search can try every way
// to divide them among domains.
type domainSearch struct {
	p       *Problem
	lessons *learnedLimits
	best    *solver
	left    int // the rounds that are left
	classes []searched
}

// searched is a class with several domains to choose from.
type searched struct {
	class, level int
	domains      []int
	n            int // the number of its pods that are not on existing nodes
}

func searchDomains(p *Problem, l *learnedLimits, best *solver) *solver {
	st := &domainSearch{p: p, lessons: l, best: best, left: min(mostSteered, p.Effort/steerEffort)}
	if p.MostLooks > 0 { // a round and its replay each take as many looks as the best round did
		st.left = int(min(int64(st.left), max(0, p.MostLooks-p.looked.Load())/(1+2*best.market.looks)))
		own := *p
		own.MostLooks, st.p = 0, &own // rounds that run at the same time must not end one another
	}
	if p.stopped() || p.spent() || !st.find() {
		return best
	}
	ways := 1
	for _, c := range st.classes {
		ways = min(ways*divisions(c.n, len(c.domains)), mostSteered+1)
	}
	if ways <= mostSteered {
		st.all()
		return st.best
	}
	quota := map[domainKey]int{}
	// There are too many ways. So divide one class at a time, and leave the others where they are best.
	for before := (*solver)(nil); before != st.best && st.left > 0; {
		before = st.best
		for i := range st.classes {
			held := st.best
			kept := maps.Clone(quota)
			st.divide(&st.classes[i], 0, st.classes[i].n, quota, func() {
				if st.try(quota); st.best != held {
					held, kept = st.best, maps.Clone(quota)
				}
			})
			quota = kept
		}
	}
	return st.best
}

// find lists the classes to search. It reports false if there are none, or too many pods, or if the best round cannot be improved.
func (st *domainSearch) find() bool {
	s := st.best
	count := make([]int, len(s.placement.classes))
	level := make([]int, len(s.placement.classes))
	total := 0
	for c := range s.placement.classes {
		count[c] = s.p.Classes[c].Count - s.placement.classes[c].next
		level[c] = len(s.p.Classes[c].Levels) - 1
		total += count[c]
	}
	for _, d := range s.placement.demands {
		if count[d.class] > 0 && level[d.class] != d.level {
			return false // the pods of the class are at several levels
		}
		count[d.class] += len(d.queue)
		level[d.class] = d.level
		total += len(d.queue)
	}
	if total > fewPods || total == 0 || s.isBest() {
		return false
	}
	for c, n := range count {
		if n == 0 {
			continue
		}
		s.placement.prepare(c, level[c])
		choices := s.placement.choicesOf(c, level[c])
		if len(choices) < 2 {
			continue
		}
		made := searched{class: c, level: level[c], n: n}
		for i := range choices {
			made.domains = append(made.domains, choices[i].domain)
		}
		st.classes = append(st.classes, made)
	}
	return len(st.classes) > 0
}

// isBest reports whether the round cannot be improved: every pod has a place at its first level, and the price is at the bound.
func (s *solver) isBest() bool {
	return counted(s.without()) == 0 && !s.broken && s.missed() == 0 && s.price() <= s.search.bound*(1+1e-6)
}

// divisions returns the number of ways to divide n pods among k domains, at most mostSteered + 1.
func divisions(n, k int) int {
	ways := 1
	for i := 1; i < k; i++ {
		ways = ways * (n + i) / i
		if ways > mostSteered {
			return mostSteered + 1
		}
	}
	return ways
}

// all tries every division of the classes' pods; there are at most mostSteered.
func (st *domainSearch) all() {
	quota, quotas := map[domainKey]int{}, []map[domainKey]int{}
	var list func(i int)
	list = func(i int) {
		if i == len(st.classes) {
			quotas = append(quotas, maps.Clone(quota))
			return
		}
		st.divide(&st.classes[i], 0, st.classes[i].n, quota, func() { list(i + 1) })
	}
	list(0)
	st.tryAll(quotas)
}

// divide tries every way to spread the class's pods over the domains, as long as rounds are left. It stores each way in quota and calls f.
func (st *domainSearch) divide(c *searched, at, left int, quota map[domainKey]int, f func()) {
	key := domainKey{c.class, c.level, c.domains[at]}
	if at == len(c.domains)-1 {
		quota[key] = left
		f()
		return
	}
	for n := left; n >= 0 && st.left > 0; n-- {
		quota[key] = n
		st.divide(c, at+1, left-n, quota, f)
	}
}

// try solves the problem with at most the quota's number of pods in each domain.
func (st *domainSearch) try(quota map[domainKey]int) {
	if st.p.stopped() {
		st.left = 0
	}
	st.take(quota, st.play(quota, st.toBeat(), st.left))
}

// tryAll tries all quotas, on as many threads as the problem allows. It plays several quotas at the same time, and takes their results in
// order.
func (st *domainSearch) tryAll(quotas []map[domainKey]int) {
	for threads := max(1, st.p.Threads); st.left > 0 && len(quotas) > 0 && !st.p.stopped(); quotas = quotas[min(threads, len(quotas)):] {
		some := quotas[:min(threads, len(quotas))]
		played := make([][]searchRound, len(some))
		toBeat := st.toBeat()
		plays := make([]func(), len(some))
		for i := range some {
			plays[i] = func() { played[i] = st.play(some[i], toBeat, st.left) }
		}
		parallel.Run(plays...)
		for i, quota := range some {
			st.take(quota, played[i])
		}
	}
}

// most returns the number of pods that a round may leave without a place: as many as the best round.
func (st *domainSearch) most() int { return counted(st.best.without()) }

// toBeat is the result of the best round; another round has to be better than it.
type toBeat struct {
	most   int     // pods without a place
	missed int     // levels that they miss
	price  float64 // infinite as long as pods have no place, or a lesson is to be learned
}

func (st *domainSearch) toBeat() toBeat {
	t := toBeat{st.most(), st.best.missed(), math.Inf(1)}
	if t.most == 0 && !st.best.broken {
		t.price = st.best.price()
	}
	return t
}

// anything is a result that every round improves.
var anything = toBeat{math.MaxInt, math.MaxInt, math.Inf(1)}

// inVain reports whether a round, after its pods are placed, is certain not to beat t: its pods miss more levels, or their machines cost too much.
func (t toBeat) inVain(s *solver) bool {
	if math.IsInf(t.price, 1) {
		return false
	}
	missed := 0
	for _, d := range s.placement.demands {
		missed += d.level * len(d.queue)
	}
	return missed > t.missed || missed == t.missed && s.market.floorOf(s.placement.demands) >= t.price*(1-1e-9)
}

// floorOf returns a lower bound for the price of machines for the demands in their domains. Demands that have no option in common share no
// machine. So each group of the other demands costs at least the cheapest machine for its dearest pod.
func (m *market) floorOf(demands []*demand) float64 {
	type group struct {
		options []bitset.Set // the options of each pool
		price   float64
	}
	var groups []group
	for _, d := range demands {
		g := group{make([]bitset.Set, len(m.pools)), math.Inf(1)}
		for p := range m.pools {
			pool := &m.pools[p]
			g.options[p] = bitset.New(len(pool.Options))
			for i := range d.ways.Pools[p] {
				g.options[p].Or(d.ways.Pools[p][i].Options)
			}
			for _, o := range pool.byPrice {
				if g.options[p].Has(o) && d.own.Fits(pool.Options[o].Allocatable) {
					g.price = min(g.price, pool.Options[o].Price)
					break
				}
			}
		}
		// The demand joins all groups that have an option in common with it; they become one group.
		groups = slices.DeleteFunc(groups, func(other group) bool {
			for p := range other.options {
				if !other.options[p].Meets(g.options[p]) {
					continue
				}
				g.price = max(g.price, other.price)
				for p := range other.options {
					g.options[p].Or(other.options[p])
				}
				return true
			}
			return false
		})
		groups = append(groups, g)
	}
	sum := 0.0
	for _, g := range groups {
		sum += g.price
	}
	return sum
}

// searchRound is a round that was played for a quota. solver is nil if the round was given up once its pods were placed: too many pods have
// no place, or it cannot be better.
type searchRound struct {
	solver    *solver
	unsettled int
	inVain    bool
}

// play solves the problem with the quota. It plays another round whenever a round opens domains that were unknown before it.
func (st *domainSearch) play(quota map[domainKey]int, t toBeat, rounds int) []searchRound {
	l := *st.lessons
	l.caps, l.open, l.shut, l.quota = maps.Clone(l.caps), maps.Clone(l.open), maps.Clone(l.shut), quota
	l.zero, l.awaited = l.zero.Clone(), l.awaited.Clone()
	var out []searchRound
	for range rounds {
		s := newSolver(st.p, &l, 0)
		s.placement.placePods()
		unsettled := s.notPlaced()
		if unsettled > t.most || t.inVain(s) {
			return append(out, searchRound{nil, unsettled, unsettled <= t.most})
		}
		s.buyMachines()
		known := len(l.open)
		s.learn()
		s.replay()
		out = append(out, searchRound{s, unsettled, false})
		if len(l.open) == known {
			break
		}
	}
	return out
}

// take keeps the best of the rounds of a quota. The best round may have changed since they were played.
func (st *domainSearch) take(quota map[domainKey]int, rounds []searchRound) {
	for i := 0; i < len(rounds) && st.left > 0; i++ {
		st.left--
		if rounds[i].unsettled > st.most() || rounds[i].inVain {
			return
		}
		if rounds[i].solver == nil { // the present best round leaves more pods than the one that this round had to beat
			rounds = st.play(quota, anything, i+1+st.left)
		}
		if s := rounds[i].solver; s.differs(st.best) && s.better(st.best) || !s.differs(st.best) && s.price() < st.best.price()*(1-1e-9) {
			st.best = s
		}
	}
}

// notPlaced returns the number of pods without a place after placing.
func (s *solver) notPlaced() int {
	n := 0
	for c := range s.placement.classes {
		n += s.p.Classes[c].Count - s.placement.classes[c].next
	}
	return n
}

func counted(ranks []rank) int {
	n := 0
	for _, r := range ranks {
		n += r.count
	}
	return n
}

// differs reports whether the two rounds differ in more than the price.
func (s *solver) differs(other *solver) bool {
	return s.broken != other.broken || s.missed() != other.missed() || !slices.Equal(s.without(), other.without())
}
