package packing_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"tenon.sh/engine/capacity"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/packing"
)

// A limit may be reached while the fillings of the bound are bought. Cheaper machines may leave some of the limit for the pods that have no
// machine yet. The search leaves no more pods without a place than a plan without a search.
func TestASearchBelowALimitLeavesNoMorePods(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Draws(40) {
		r := rand.New(rand.NewPCG(seed, 23))
		var pods []packing.Class
		for range 12 {
			pods = append(pods, packing.Class{Request: capacity.Vector{5000 + 100*r.Int64N(60), 9000 + 250*r.Int64N(60)}, Count: 1 + r.IntN(12)})
		}
		solve := func(cores int64, effort int) (*packing.Problem, *packing.Solution) {
			p := withNodes(slices.Clone(pods))
			p.Effort, p.Pools[0].Left[0] = effort, cores
			return p, packing.Solve(p)
		}
		p, free := solve(capacity.Most, 20_000)
		used := int64(0)
		for _, m := range free.New {
			used += p.Pools[0].Options[m.Chosen].Charge[0]
		}
		for _, less := range []int64{2000, 8000, 32_000} {
			_, first := solve(used-less, 0)
			_, sol := solve(used-less, 20_000)
			lost := 0
			for c := range sol.Left {
				lost += len(sol.Left[c]) - len(first.Left[c])
			}
			if lost > 0 {
				t.Errorf("seed %d, %d less: %d more pods are left than without a search", seed, less, lost)
			}
		}
	}
}
