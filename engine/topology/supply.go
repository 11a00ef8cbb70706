package topology

import (
	"slices"

	"tenon.sh/engine/bitset"
)

// Available is a number of things of which each can be had once.
type Available struct {
	// Key tells apart the places from which different things can be had.
	Key    int
	Things int
	// Reach holds, for each domain of the key, the things that can be had there; Endless the domains where nobody needs one
	// of them.
	Reach   []bitset.Set
	Endless bitset.Set
}

// Take asks for one of some things of available volumes.
type Take struct {
	Supply int
	Suits  bitset.Set
	// Joint is a number that pods share which take one thing together, 0 for those that take it alone.
	Joint int
}

// taking says who has what: a matching, in which whoever came may be given another thing that suits to make way.
type taking struct {
	takers []taker
	by     []int // of each thing, its taker; -1 for none
}

type taker struct {
	suits bitset.Set // of the things that can be had where it is
	joint int
}

func newTaking(s *Available) taking { return taking{by: slices.Repeat([]int{-1}, s.Things)} }

// take gives the taker a thing, along a chain of others that make way (H. W. Kuhn, The Hungarian method, 1955). It changes
// nothing and answers false if there is none.
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
		suits.And(s.Reach[d]) // where it is open which domain it is, it may be any
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

// supplied is how available volumes stood before a change.
type supplied struct {
	supply, takers int
	by             []int
}

// takeAll lets the pod take all that it asks for. It answers with how things stood before, and whether all could be had;
// what could be had stays taken.
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

// supplies reports whether the pod can have all that it asks for at the place.
func (world *World) supplies(r *Rules, place Place) bool {
	if len(r.Takes) == 0 {
		return true
	}
	before, ok := world.takeAll(r, place)
	world.giveBack(before)
	return ok
}
