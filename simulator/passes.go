package simulator

import (
	"context"
	"slices"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
)

const (
	// againFirst is the time until a plan without launches is made again while pods wait. It doubles up to againMost.
	againFirst, againMost = time.Minute, 10 * time.Minute
	// lookAgain, times the number of nodes, is how often a pass looks at all nodes instead of changed nodes only. This takes longer with more nodes,
	// and matters less. With 500 nodes it is once in 100 minutes.
	lookAgain = 12 * time.Second
)

// passes makes the plans of the engine, and begins their launches and disruptions.
type passes struct {
	cfg       *Config
	agenda    *agenda
	pending   *pending
	timetable *timetable
	meter     *meter
	cluster   *cluster
	claims    *claims
	steps     *steps
	orders    *orders
	baseline  *baseline // nil with another policy
	audit     *audit
	cache     *inventory.Cache
	earlier   *engine.EarlierPasses // the results of earlier disruption passes
	kept      []engine.Kept         // by the last disruption plan
	asking    bool                  // a plan is in the agenda although nothing may change until then
	again     time.Duration         // the time until the next such plan
}

// provision makes a plan for the pods that wait and carries it out.
func (p *passes) provision(ctx context.Context) {
	p.timetable.beginPlan()
	if len(p.cluster.unbound.list) == 0 && !p.cluster.anyToMove() {
		return
	}
	p.meter.Passes++
	s := p.cluster.snapshot(ctx)
	var plan *engine.Plan
	if p.cfg.Policy == Baseline {
		plan = p.baseline.plan(s)
	} else {
		plan = provisioning.Plan(s, p.cfg.Options, p.cache)
	}
	for _, launch := range plan.Launches {
		if pool := p.cluster.pool(launch.NodePool); pool != nil {
			p.claims.add(pool, launch, nil)
		}
	}
	p.remember(plan)
	p.timetable.endPlan(len(plan.Unplaced) > 0)
	if len(plan.Launches) > 0 {
		p.again = againFirst
		return
	}
	if len(p.cluster.unbound.list) == 0 || p.asking {
		return
	}
	// Nothing to do now: sold-out offerings may be available later.
	p.asking = true
	p.agenda.after(p.again, func() {
		p.asking = false
		p.pending.pods = p.pending.pods || len(p.cluster.unbound.list) > 0
		p.timetable.wantMachines()
	})
	p.again = min(2*p.again, againMost)
}

// remember writes the plan's launch backoffs and learned devices on the NodePools.
func (p *passes) remember(plan *engine.Plan) {
	for _, change := range plan.Backoffs {
		p.cluster.annotatePool(change.NodePool, v1.LaunchBackoffAnnotationKey, change.Text)
	}
	for _, change := range plan.LearnedDevices {
		p.cluster.annotatePool(change.NodePool, v1.LearnedDevicesAnnotationKey, change.Text)
	}
}

// disrupt makes a disruption plan and begins its disruptions.
func (p *passes) disrupt(ctx context.Context) {
	p.timetable.beginLook()
	p.steps.observe(ctx)
	p.meter.Passes++
	s := p.cluster.snapshot(ctx)
	s.EarlierPasses = p.earlier
	opt := p.cfg.Options
	opt.LookAgain = max(1, time.Duration(len(s.Nodes))*lookAgain)
	plan := disruption.Plan(s, opt, p.cache)
	p.earlier = plan.Passes
	p.kept = plan.Kept
	p.timetable.endLook(slices.ContainsFunc(plan.Disruptions, func(d engine.Disruption) bool { return d.Reason != v1.Underutilized && d.Reason != v1.Empty }))
	if p.cfg.Audit {
		p.audit.budgets(s, opt, plan)
		if p.cfg.Policy != Baseline {
			p.audit.noteKept(plan)
		}
	}
	if p.cfg.Policy == Baseline {
		plan.Disruptions = p.baseline.disruptions(s, plan)
	}
	for _, d := range plan.Disruptions {
		p.orders.begin(d)
	}
	for _, k := range plan.Kept {
		switch k.Reason.Code {
		case engine.ConsolidateAfter, engine.Unsettled, engine.OwnerMoved, engine.BudgetExhausted, engine.Paused, engine.OutsideMoveWindow,
			engine.TakenBack, engine.PodsExpected:
			p.cluster.noteChange() // time alone changes that
			return
		case engine.NoCheaperPlace, engine.SavesTooLittle: // a pod of twice the age costs less to move
			p.timetable.noteAge(p.cluster.size())
		}
	}
	if p.timetable.mayYield() { // if sold-out offerings become available
		p.cluster.noteChange()
	}
}
