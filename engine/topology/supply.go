package topology

import (
	"slices"

	"tenon.sh/engine/bitset"
)

// Available is a set of things, for example volumes, each of which only one pod can take.
type Available struct {
	// Key divides places by the things that can be reached from them.
	Key    int
	Things int
	// Reach holds, for each domain of the key, the things that can be reached from there. Endless holds the domains in which pods need none of the
	// things, because volumes can be created there.
	Reach   []bitset.Set
	Endless bitset.Set
}

// Take is the need for one of the suitable things.
type Take struct {
	Supply int
	Suits  bitset.Set
	// Joint is an index shared by the pods that take one thing together, 0 for a pod that takes a thing alone.
	Joint int
}

// taking is a matching of takers and things. A taker may get another suitable thing, to leave its own to a later taker.
type taking struct {
	takers []taker
	by     []int // of each thing, its taker; -1 for none
}

type taker struct {
	suits bitset.Set // the things that suit and can be reached from its place
	joint int
}

func newTaking(s *Available) taking { return taking{by: slices.Repeat([]int{-1}, s.Things)} }

// take gives the taker a thing. Other takers may get other things instead, along a chain (H. W. Kuhn, The Hungarian method, 1955). It
// reports false and changes nothing if no thing is left.
func (t *taking) take(l *Layout, ask *Take, place Place) bool {
	s := &l.Available[ask.Supply]
	d := place[s.Key]
	if d >= 0 && s.Endless.Has(int(d)) || ask.Joint > 0 && slices.ContainsFunc(t.takers, func(o taker) bool { return o.joint == ask.Joint }) {
		return true
	}
	if d == Nowhere {
		return false
	}
	suits := ask.Suits.Clone()
	if d >= 0 {
		suits.And(s.Reach[d]) // if the domain is Open, the things of all domains suit
	}
	t.takers = append(t.takers, taker{suits, ask.Joint})
	if t.augment(len(t.takers)-1, bitset.New(s.Things)) {
		return true
	}
	t.takers = t.takers[:len(t.takers)-1]
	return false
}

func (t *taking) augment(who int, seen bitset.Set) bool {
	suits := t.takers[who].suits
	for i := suits.Next(0); i >= 0; i = suits.Next(i + 1) {
		if t.by[i] < 0 {
			t.by[i] = who
			return true
		}
	}
	for i := suits.Next(0); i >= 0; i = suits.Next(i + 1) {
		if seen.Has(i) {
			continue
		}
		seen.Add(i)
		if t.augment(t.by[i], seen) {
			t.by[i] = who
			return true
		}
	}
	return false
}

// supplied is the state of available volumes before a change.
type supplied struct {
	supply, takers int
	by             []int
}

// takeAll takes all things that the pod needs. It returns the state before, and whether there were enough things. If there were not, the things that
// it found stay taken.
func (world *World) takeAll(r *Rules, place Place) (before []supplied, ok bool) {
	ok = true
	for i := range r.Takes {
		ask := &r.Takes[i]
		t := &world.takings[ask.Supply]
		before = append(before, supplied{ask.Supply, len(t.takers), slices.Clone(t.by)})
		ok = t.take(world.l, ask, place) && ok
	}
	return before, ok
}

func (world *World) giveBack(before []supplied) {
	for _, b := range slices.Backward(before) {
		t := &world.takings[b.supply]
		t.takers, t.by = t.takers[:b.takers], b.by
	}
}

// supplies reports whether the place has all things that the pod needs.
func (world *World) supplies(r *Rules, place Place) bool {
	if len(r.Takes) == 0 {
		return true
	}
	before, ok := world.takeAll(r, place)
	world.giveBack(before)
	return ok
}
