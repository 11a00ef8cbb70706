package engine

import (
	"sync/atomic"

	"tenon.sh/engine/packing"
)

// Compiled is a snapshot made ready for solving, so that benchmarks can time the two halves apart.
type Compiled = problem

// Compile is the first half of Provision.
func Compile(s *Snapshot, opt Options, memo *Memo) *Compiled { return compile(s, opt, memo) }

// Solve is the second half of Provision, without names and reasons.
func (p *problem) Solve() *packing.Solution { return packing.Solve(p.packing) }

// Work is how many units of effort compiling and solving take.
func (p *problem) Work() int64 {
	_, units := p.PlanAndWork()
	return units
}

// PlanAndWork is Plan and Work at once.
func (p *problem) PlanAndWork() (*Plan, int64) {
	var units atomic.Int64
	p.packing.Work = &units
	plan := p.Plan()
	return plan, units.Load() + int64(p.looked/packing.Comparisons)
}

// Plan is the plan of the problem, as Provision makes it where pods wait.
func (p *problem) Plan() *Plan { return newPlan(p, packing.Solve(p.packing)) }
