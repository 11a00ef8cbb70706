package bitset_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"tenon.sh/engine/bitset"
)

// model is the same set as a plain map: slow, and easy to believe.
type model map[int]bool

func draw(r *rand.Rand, n int) (bitset.Set, model) {
	s, m := bitset.New(n), model{}
	for range r.IntN(n + 1) {
		i := r.IntN(n)
		s.Add(i)
		m[i] = true
	}
	return s, m
}

func members(s bitset.Set) []int {
	out := []int{}
	for i := s.Next(0); i >= 0; i = s.Next(i + 1) {
		out = append(out, i)
	}
	return out
}

func (m model) members() []int {
	out := []int{}
	for i := range m {
		out = append(out, i)
	}
	slices.Sort(out)
	return out
}

func TestSetsBehaveLikeMaps(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + r.IntN(200)
		a, ma := draw(r, n)
		b, mb := draw(r, n)
		both, either := model{}, model{}
		for i := range n {
			if ma[i] && mb[i] {
				both[i] = true
			}
			if ma[i] || mb[i] {
				either[i] = true
			}
		}
		if got := members(a); !slices.Equal(got, ma.members()) || a.Len() != len(ma) || a.Empty() != (len(ma) == 0) {
			t.Fatalf("set has %v, want %v", got, ma.members())
		}
		if got := a.Meets(b); got != (len(both) > 0) {
			t.Fatalf("%v meets %v: %v", ma.members(), mb.members(), got)
		}
		if got := a.Within(b); got != (len(both) == len(ma)) {
			t.Fatalf("%v within %v: %v", ma.members(), mb.members(), got)
		}
		and, or, rest := a.Clone(), a.Clone(), a.Clone()
		and.And(b)
		or.Or(b)
		if rest.AndNot(b); rest.Meets(b) || rest.Len() != a.Len()-and.Len() || !rest.Within(a) {
			t.Fatalf("%v without %v is %v", ma.members(), mb.members(), members(rest))
		}
		if !slices.Equal(members(and), both.members()) || !slices.Equal(members(or), either.members()) {
			t.Fatalf("and %v, or %v; want %v, %v", members(and), members(or), both.members(), either.members())
		}
	}
}

func TestFullHoldsEverythingBelowItsSize(t *testing.T) {
	t.Parallel()
	for n := range 200 {
		if got := bitset.Full(n).Len(); got != n {
			t.Errorf("Full(%d) has %d members", n, got)
		}
	}
}
