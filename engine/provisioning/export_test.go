package provisioning

import (
	"sync/atomic"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/packing"
)

// Compiled is a snapshot ready for solving. With it, benchmarks time both halves separately.
type Compiled = Problem

// Compile is the first half of Provision.
func Compile(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache) *Compiled {
	return CompileProblem(s, opt, cache)
}

// Solve is the second half of Provision, without names and reasons.
func (p *Problem) Solve() *packing.Solution { return packing.Solve(p.Packing) }

// PlanAndWork returns the plan for the snapshot, and the units of effort that it takes.
func PlanAndWork(s *engine.Snapshot) (*engine.Plan, int64) {
	cache := &inventory.Cache{}
	pods := cache.Take(s, 1)
	p := ReadProblem(s, engine.Options{}, pods, nil)
	p.work = &atomic.Int64{}
	p, solution := solveWithin(p, s, engine.Options{}, pods)
	return NewPlan(p, solution), p.work.Load() + int64(p.looked/packing.Comparisons)
}

// Plan returns the plan of the problem, as Provision makes it if pods wait.
func (p *Problem) Plan() *engine.Plan { return NewPlan(p, packing.Solve(p.Packing)) }
