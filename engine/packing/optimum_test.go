package packing_test

import (
	"math"
	"testing"

	"tenon.sh/engine/packing"
)

// outcome sums up how the solutions of one feature's problems compare with the optimum.
type outcome struct {
	problems, equal, left int
	worst                 float64
	worstSeed             uint64
}

// judge compares a solution with the optimum for the same pods. A pod that is left may have had to make way for others,
// but must not be one that could have been placed beside all that are.
func (o *outcome) judge(t *testing.T, feature string, seed uint64) {
	d := drawRuled(seed, feature)
	s, b := packing.Solve(d.p), d.brute()
	var counts []int
	for c := range s.Left {
		counts = append(counts, d.p.Classes[c].Count-len(s.Left[c]))
	}
	o.problems++
	for c := range counts {
		if len(s.Left[c]) == 0 {
			continue
		}
		counts[c]++
		if !math.IsInf(b.least(counts), 1) {
			o.left++
			t.Logf("%s, seed %d: a pod of class %d is left, but has a place beside the others", feature, seed, c)
		}
		counts[c]--
	}
	got, want := price(d.p, s), b.least(counts)
	switch {
	case got < want*(1-1e-9):
		t.Errorf("%s, seed %d: costs %.4f, less than the optimum %.4f: some rule is broken", feature, seed, got, want)
	case got <= want*(1+1e-9):
		o.equal++
	default:
		t.Logf("%s, seed %d: costs %.4f, %.3f times the optimum", feature, seed, got, got/want)
		if got/want > o.worst {
			o.worst, o.worstSeed = got/want, seed
		}
	}
	if s.Bound > want*(1+1e-9) {
		t.Errorf("%s, seed %d: the bound %.4f is above the optimum %.4f", feature, seed, s.Bound, want)
	}
}

// Rules between pods do not make small problems dearer than they have to be, whatever they are about.
func TestSmallProblemsWithRulesAreSolvedNearlyAlwaysAtTheLeastPrice(t *testing.T) {
	t.Parallel()
	const problems = 200 // of each feature
	for _, feature := range features() {
		t.Run(feature, func(t *testing.T) {
			t.Parallel()
			var o outcome
			for seed := range uint64(problems) {
				o.judge(t, feature, seed)
			}
			t.Logf("equal %d of %d, pods left without need in %d, worst %.3f (seed %d)", o.equal, o.problems, o.left, o.worst, o.worstSeed)
			if o.equal < problems*95/100 || o.worst > 1.1 {
				t.Errorf("%d of %d problems are solved at the least price, the worst at %.3f times it (seed %d)", o.equal, o.problems, o.worst, o.worstSeed)
			}
			if o.left > problems/100 {
				t.Errorf("%d problems leave pods that have a place", o.left)
			}
		})
	}
}
