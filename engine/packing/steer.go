package packing

import (
	"maps"
	"slices"
)

// mostSteered is the number of rounds that steering may take, steerEffort what one of them counts for.
const (
	mostSteered = 400
	steerEffort = 50
)

// steering looks for better spots for a few pods. Where a pod has to go is settled before anybody knows what machines
// will be bought, so that the last pods of a spread, or all of a group that stays together, may end up where they need a
// machine of their own. For few pods every way to divide them among spots can be tried.
type steering struct {
	p       *Problem
	lessons *lessons
	best    *solver
	left    int // rounds
	classes []steered
}

// steered is a class with several spots to choose from.
type steered struct {
	class, level int
	spots        []int
	n            int // its pods that no existing node takes
}

func steer(p *Problem, l *lessons, best *solver) *solver {
	st := &steering{p: p, lessons: l, best: best, left: min(mostSteered, p.Effort/steerEffort)}
	if !st.find() {
		return best
	}
	ways := 1
	for _, c := range st.classes {
		ways = min(ways*divisions(c.n, len(c.spots)), mostSteered+1)
	}
	quota := map[spotKey]int{}
	if ways <= mostSteered {
		st.all(0, quota)
		return st.best
	}
	// Too many: one class at a time, the others staying where they are best.
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

// find lists what can be steered; it answers false where that is nothing, too much, or not worth it.
func (st *steering) find() bool {
	s := st.best
	count := make([]int, len(s.classes))
	level := make([]int, len(s.classes))
	total := 0
	for c := range s.classes {
		count[c] = s.p.Classes[c].Count - s.classes[c].next
		level[c] = len(s.p.Classes[c].Levels) - 1
		total += count[c]
	}
	for _, it := range s.items {
		if count[it.class] > 0 && level[it.class] != it.level {
			return false // the pods of the class are at several levels
		}
		count[it.class] += len(it.queue)
		level[it.class] = it.level
		total += len(it.queue)
	}
	if total > fewPods || total == 0 || s.settled() {
		return false
	}
	for c, n := range count {
		if n == 0 {
			continue
		}
		s.prepare(c, level[c])
		spots := s.spotsOf(c, level[c])
		if len(spots) < 2 {
			continue
		}
		made := steered{class: c, level: level[c], n: n}
		for i := range spots {
			made.spots = append(made.spots, spots[i].spot)
		}
		st.classes = append(st.classes, made)
	}
	return len(st.classes) > 0
}

// settled reports whether the round cannot be bettered: every pod has what it wants most, at the bound.
func (s *solver) settled() bool {
	return counted(s.without()) == 0 && !s.broken && s.missed() == 0 && s.price() <= s.bound*(1+1e-6)
}

// divisions counts the ways to divide n pods among k spots.
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

// all tries every division of the classes from i on.
func (st *steering) all(i int, quota map[spotKey]int) {
	if i == len(st.classes) {
		st.try(quota)
		return
	}
	st.divide(&st.classes[i], 0, st.classes[i].n, quota, func() { st.all(i+1, quota) })
}

// divide calls f for every division of the class's pods, with the numbers in quota.
func (st *steering) divide(c *steered, at, left int, quota map[spotKey]int, f func()) {
	key := spotKey{c.class, c.level, c.spots[at]}
	if at == len(c.spots)-1 {
		quota[key] = left
		f()
		return
	}
	for n := left; n >= 0; n-- {
		quota[key] = n
		st.divide(c, at+1, left-n, quota, f)
	}
}

// try solves the problem with no more pods in each spot than the quota says.
func (st *steering) try(quota map[spotKey]int) {
	l := *st.lessons
	l.caps, l.open, l.shut, l.quota = maps.Clone(l.caps), maps.Clone(l.open), maps.Clone(l.shut), quota
	l.zero, l.awaited = l.zero.Clone(), l.awaited.Clone()
	for st.left > 0 {
		st.left--
		s := newSolver(st.p, &l)
		s.settle()
		if s.unsettled() > counted(st.best.without()) {
			return
		}
		for _, tier := range s.tiers() {
			s.buy(tier)
		}
		s.makeMachines()
		known := len(l.open)
		s.learn()
		s.replay()
		if s.differs(st.best) && s.better(st.best) || !s.differs(st.best) && s.price() < st.best.price()*(1-1e-9) {
			st.best = s
		}
		if len(l.open) == known {
			return // else there are domains that the round did not know of
		}
	}
}

// unsettled counts the pods that settling found no place for.
func (s *solver) unsettled() int {
	n := 0
	for c := range s.classes {
		n += s.p.Classes[c].Count - s.classes[c].next
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
