package packing_test

import (
	"math/rand/v2"
	"testing"

	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/packing"
)

// rationed returns a drawn problem whose machines draw cores from the quotas of two families and from one quota of all families. Domain
// machines have a quota of their own.
func rationed(seed uint64) *packing.Problem {
	p, _ := drawProblem(seed)
	r := rand.New(rand.NewPCG(seed, 77))
	first := len(p.Quotas)
	for range 4 {
		p.Quotas = append(p.Quotas, r.IntN(80)-4)
	}
	for i := range p.Pools {
		for o := range p.Pools[i].Options {
			option := &p.Pools[i].Options[o]
			cores := int(option.Charge[0] / 1000)
			if option.Group == 1 {
				option.Draws = append(option.Draws, packing.Draw{Quota: first + 3, Units: cores})
				continue
			}
			option.Draws = append(option.Draws, packing.Draw{Quota: first + option.Type%2, Units: cores}, packing.Draw{Quota: first + 2, Units: cores})
		}
	}
	return p
}

func TestQuotasHoldWhateverTheCloudChooses(t *testing.T) {
	t.Parallel()
	seeds := []uint64{571, 4913} // machines for pods without a place after a round, in the second problem from a pool with a variety
	for seed := range enginetest.Draws(drawnProblems) {
		seeds = append(seeds, seed)
	}
	lists, machines := 0, 0
	for _, seed := range seeds {
		p := rationed(seed)
		s := packing.Solve(p)
		for _, fault := range verify(p, s) {
			t.Errorf("seed %d: %s", seed, fault)
		}
		machines += len(s.New)
		for i := range s.New {
			if len(s.New[i].Listed) > 1 {
				lists++
			}
		}
	}
	t.Logf("%d machines, of which %d list several options", machines, lists)
	if lists*10 < machines {
		t.Error("hardly any machine lists several options")
	}
}

// An option that is cheaper and larger than another one replaces it, unless its quota may run out: then the search keeps both.
func TestWhatMayRunOutStandsForNothing(t *testing.T) {
	t.Parallel()
	p, _ := drawProblem(288)
	if s := packing.Solve(p); price(p, s) > 1 {
		t.Errorf("the machines cost %.4f: the slot of the reservation is spent, and so is twice as much beside it", price(p, s))
	}
}
