package packing_test

import (
	"math"
	"slices"
	"testing"

	"tenon.sh/engine/capacity"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/packing"
)

// outcome sums up how the solutions of one feature's problems compare with the optimum.
type outcome struct {
	problems, equal, left int
	worst                 float64
	worstSeed             uint64
}

// judge compares a solution with the optimum for the same pods. A pod may be without a place because of others, but not if it could have
// been placed beside all other pods.
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

// Rules between pods of any kind do not make the solutions of small problems dearer than necessary.
func TestSmallProblemsWithRulesAreSolvedNearlyAlwaysAtTheLeastPrice(t *testing.T) {
	t.Parallel()
	problems := int(enginetest.Draws(200)) // of each feature
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

// Pods that share a machine get a large one, even a cheap one, only if no other machine in the zone holds all of them.
func TestCompaniesGetLargeMachinesOnlyWhereTheyNeedThem(t *testing.T) {
	t.Parallel()
	needed, spared := 0, 0
	for seed := range uint64(300) {
		d := drawRuled(seed, []string{"host affinity", "one machine"}[seed%2])
		options := d.p.Pools[0].Options
		most := int64(0)
		for i := range options {
			most = max(most, options[i].Allocatable[0])
		}
		for i := range options {
			if options[i].Large = options[i].Allocatable[0] == most; options[i].Large {
				options[i].Price /= 100
			}
		}
		for _, m := range packing.Solve(d.p).New {
			sum := make(capacity.Vector, 3)
			for _, share := range m.Pods {
				sum.Add(d.p.Classes[share.Class].Request, int64(len(share.Pods)))
			}
			chosen := &options[m.Chosen]
			other := slices.ContainsFunc(options, func(o packing.Option) bool {
				return !o.Large && o.Place == chosen.Place && sum.Fits(o.Allocatable)
			})
			switch {
			case chosen.Large && other:
				t.Errorf("seed %d: %v get the large option %d, and another holds them", seed, m.Pods, m.Chosen)
			case chosen.Large:
				needed++
			case len(m.Pods) > 1:
				spared++
			}
		}
	}
	if needed < 20 || spared < 20 {
		t.Errorf("%d machines are large, %d that could be are not: too few to tell", needed, spared)
	}
}
