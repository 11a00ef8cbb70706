package packing_test

import (
	"reflect"
	"slices"
	"testing"

	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/packing"
)

// drawnProblems is the number of problems for each law; a test reports the seed of a problem that breaks the law.
const drawnProblems = 600

func TestEveryRuleHoldsInEverySolution(t *testing.T) {
	t.Parallel()
	placed, left, machines := 0, 0, 0
	seeds := []uint64{3469} // a machine bought late would bring a resident of a set that pods have started elsewhere
	for seed := range enginetest.Draws(drawnProblems) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		p, _ := drawProblem(seed)
		s := packing.Solve(p)
		for _, fault := range verify(p, s) {
			t.Errorf("seed %d: %s", seed, fault)
		}
		placed, machines = placed+len(s.Order), machines+len(s.New)
		for c := range s.Left {
			left += len(s.Left[c])
		}
	}
	t.Logf("%d pods are placed, %d left, %d machines", placed, left, machines)
}

func TestPlanIsNotBelowItsBound(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Draws(drawnProblems) {
		p, _ := drawProblem(seed)
		if s := packing.Solve(p); s.Bound > price(p, s)*(1+1e-9) {
			t.Errorf("seed %d: costs %.6f, the bound is %.6f", seed, price(p, s), s.Bound)
		}
	}
}

// Plans that buy for the same pods with different efforts never cost less than the bound of any of them. Pools with weights and classes
// with preferences are left out, because these decide on machines whatever they cost.
func TestNoPlanIsBelowTheBoundOfAnother(t *testing.T) {
	t.Parallel()
	compared := 0
	for seed := range enginetest.Draws(drawnProblems) {
		var plans []*packing.Solution
		var prices []float64
		for _, effort := range []int{0, 10, 100_000} {
			p, _ := drawProblem(seed)
			if slices.ContainsFunc(p.Pools, func(pool packing.Pool) bool { return pool.Weight != p.Pools[0].Weight }) ||
				slices.ContainsFunc(p.Classes, func(c packing.Class) bool { return len(c.Levels) > 1 }) {
				break
			}
			p.Effort = effort
			s := packing.Solve(p)
			plans, prices = append(plans, s), append(prices, price(p, s))
		}
		for i, a := range plans {
			for j, b := range plans {
				if i == j || !reflect.DeepEqual(a.OnNodes, b.OnNodes) || !reflect.DeepEqual(a.Left, b.Left) {
					continue
				}
				compared++
				if a.Bound > prices[j]*(1+1e-9) {
					t.Errorf("seed %d: plan %d costs %.6f, the bound of plan %d is %.6f", seed, j, prices[j], i, a.Bound)
				}
			}
		}
	}
	if compared == 0 {
		t.Error("no plans are compared")
	}
	t.Logf("%d plans are compared", compared)
}

func TestNeitherThreadsNorTimeShow(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Draws(drawnProblems / 6) {
		p, _ := drawProblem(seed)
		want := packing.Solve(p)
		for _, threads := range []int{1, 2, 8} {
			p, _ := drawProblem(seed)
			p.Threads = threads
			if got := packing.Solve(p); !reflect.DeepEqual(got, want) {
				t.Errorf("seed %d: another solution with %d threads", seed, threads)
			}
		}
	}
}

// A solver that reaches MostLooks ends early and reports that. It may then leave pods without a place, but each pod with a place meets its rules.
func TestPlacingThatEndsEarlyPutsNoPodWhereItMayNotBe(t *testing.T) {
	t.Parallel()
	exhausted := 0
	for seed := range enginetest.Draws(drawnProblems / 6) {
		p, _ := drawProblem(seed)
		whole := packing.Solve(p)
		for _, most := range []int64{1, 30, 1000} {
			p.MostLooks = most
			s := packing.Solve(p)
			if !s.Exhausted && leftOf(s) > leftOf(whole) {
				t.Errorf("seed %d, %d looks: %d pods have no place, %d with any number of looks, and the solution does not say why", seed, most, leftOf(s), leftOf(whole))
			}
			if s.Exhausted {
				exhausted++
			}
			for _, fault := range verify(p, s) {
				t.Errorf("seed %d, %d looks: %s", seed, most, fault)
			}
			p, _ = drawProblem(seed)
			if p.MostLooks, p.Threads = most, 4; !reflect.DeepEqual(packing.Solve(p), s) {
				t.Errorf("seed %d, %d looks: another solution with 4 threads", seed, most)
			}
		}
	}
	if exhausted == 0 {
		t.Error("every problem was solved whole")
	}
}

func leftOf(s *packing.Solution) (n int) {
	for _, pods := range s.Left {
		n += len(pods)
	}
	return n
}

// Effort makes plans cheaper; the plans are correct with any effort.
func TestEveryEffortGivesARightSolution(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Draws(drawnProblems / 6) {
		for _, effort := range []int{0, 10, 100_000} {
			p, _ := drawProblem(seed)
			p.Effort = effort
			for _, fault := range verify(p, packing.Solve(p)) {
				t.Errorf("seed %d, effort %d: %s", seed, effort, fault)
			}
		}
	}
}
