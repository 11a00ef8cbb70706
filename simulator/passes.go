package simulator

import (
	"context"
	"slices"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/provisioning"
)

const (
	// againFirst is the time until a plan without launches is made again while pods wait. It doubles up to againMost.
	againFirst, againMost = time.Minute, 10 * time.Minute
	// lookAgain, times the number of nodes, is how often a pass looks at all nodes instead of changed nodes only. This takes longer with more nodes,
	// and matters less. With 500 nodes it is once in 100 minutes.
	lookAgain = 12 * time.Second
)

// provision makes a plan for the pods that wait and carries it out.
func (w *World) provision(ctx context.Context) {
	w.timetable.beginPlan()
	if len(w.cluster.unbound.list) == 0 && !w.cluster.anyToMove() {
		return
	}
	w.meter.Passes++
	s := w.cluster.snapshot(ctx)
	var plan *engine.Plan
	if w.cfg.Policy == Baseline {
		plan = w.baseline.plan(s)
	} else {
		plan = provisioning.Plan(s, w.cfg.Options, w.cache)
	}
	for _, launch := range plan.Launches {
		if pool := w.cluster.pool(launch.NodePool); pool != nil {
			w.claims.add(pool, launch, nil)
		}
	}
	w.remember(plan)
	w.timetable.unplaced = len(plan.Unplaced) > 0
	if len(plan.Launches) > 0 {
		w.again = againFirst
		return
	}
	if len(w.cluster.unbound.list) == 0 || w.asking {
		return
	}
	// Nothing to do now: sold-out offerings may be available later.
	w.asking = true
	w.agenda.after(w.again, func() {
		w.asking = false
		w.pending.pods = w.pending.pods || len(w.cluster.unbound.list) > 0
		w.timetable.wantMachines()
	})
	w.again = min(2*w.again, againMost)
}

// remember writes the plan's launch backoffs and learned devices on the NodePools.
func (w *World) remember(plan *engine.Plan) {
	for _, change := range plan.Backoffs {
		w.cluster.annotatePool(change.NodePool, v1.LaunchBackoffAnnotationKey, change.Text)
	}
	for _, change := range plan.LearnedDevices {
		w.cluster.annotatePool(change.NodePool, v1.LearnedDevicesAnnotationKey, change.Text)
	}
}

// disrupt makes a disruption plan and begins its disruptions.
func (w *World) disrupt(ctx context.Context) {
	w.timetable.beginLook()
	w.steps.observe(ctx)
	w.meter.Passes++
	s := w.cluster.snapshot(ctx)
	s.EarlierPasses = w.passes
	opt := w.cfg.Options
	opt.LookAgain = max(1, time.Duration(len(s.Nodes))*lookAgain)
	plan := disruption.Plan(s, opt, w.cache)
	w.passes = plan.Passes
	w.kept = plan.Kept
	w.timetable.pressing = slices.ContainsFunc(plan.Disruptions, func(d engine.Disruption) bool { return d.Reason != v1.Underutilized && d.Reason != v1.Empty })
	if w.cfg.Audit {
		w.audit.budgets(s, opt, plan)
		if w.cfg.Policy != Baseline {
			w.audit.noteKept(plan)
		}
	}
	if w.cfg.Policy == Baseline {
		plan.Disruptions = w.baseline.disruptions(s, plan)
	}
	for _, d := range plan.Disruptions {
		w.orders.begin(d)
	}
	for _, k := range plan.Kept {
		switch k.Reason.Code {
		case engine.ConsolidateAfter, engine.Unsettled, engine.OwnerMoved, engine.BudgetExhausted, engine.Paused, engine.OutsideMoveWindow,
			engine.TakenBack, engine.PodsExpected:
			w.cluster.noteChange() // time alone changes that
			return
		case engine.NoCheaperPlace, engine.SavesTooLittle: // a pod of twice the age costs less to move
			w.timetable.noteAge(w.cluster.size())
		}
	}
	if w.timetable.mayYield() { // if sold-out offerings become available
		w.cluster.noteChange()
	}
}
