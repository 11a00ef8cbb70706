package provisioning

import (
	"sync/atomic"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/packing"
)

// Compiled is a snapshot made ready for solving, so that benchmarks can time the two halves apart.
type Compiled = Problem

// Compile is the first half of Provision.
func Compile(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache) *Compiled {
	return CompileProblem(s, opt, cache)
}

// Solve is the second half of Provision, without names and reasons.
func (p *Problem) Solve() *packing.Solution { return packing.Solve(p.Packing) }

// Work is how many units of effort compiling and solving take.
func (p *Problem) Work() int64 {
	_, units := p.PlanAndWork()
	return units
}

// PlanAndWork is Plan and Work at once.
func (p *Problem) PlanAndWork() (*engine.Plan, int64) {
	var units atomic.Int64
	p.Packing.Work = &units
	plan := p.Plan()
	return plan, units.Load() + int64(p.looked/packing.Comparisons)
}

// Plan is the plan of the problem, as Provision makes it where pods wait.
func (p *Problem) Plan() *engine.Plan { return NewPlan(p, packing.Solve(p.Packing)) }
