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
	case got/want > o.worst:
		o.worst, o.worstSeed = got/want, seed
	}
	if s.Bound > want*(1+1e-9) {
		t.Errorf("%s, seed %d: the bound %.4f is above the optimum %.4f", feature, seed, s.Bound, want)
	}
}

func TestSmallProblemsWithRulesAreSolvedNearlyAlwaysAtTheLeastPrice(t *testing.T) {
	t.Parallel()
	const problems = 200 // of each feature
	total := outcome{}
	for _, feature := range features() {
		var o outcome
		for seed := range uint64(problems) {
			o.judge(t, feature, seed)
		}
		t.Logf("%-20s equal %d of %d, pods left %d, worst %.3f (seed %d)", feature, o.equal, o.problems, o.left, o.worst, o.worstSeed)
		total.equal, total.problems = total.equal+o.equal, total.problems+o.problems
	}
	t.Logf("equal %d of %d", total.equal, total.problems)
}
