package simulator

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/engine/provisioning"
)

const (
	// againFirst is the time until a plan without launches is made again while pods wait. It doubles up to againMost.
	againFirst, againMost = time.Minute, 10 * time.Minute
	// lookAgain, times the number of nodes, is how often a pass looks at all nodes instead of changed nodes only. This takes longer with more nodes,
	// and matters less. With 500 nodes it is once in 100 minutes.
	lookAgain = 12 * time.Second
	// awaitEvery is how often a plan is made while pods wait and a started machine is not ready.
	awaitEvery = 2 * time.Minute
	// collectEvery is how often the world looks for machines without claims, and claims without machines.
	collectEvery = 10 * time.Minute
)

// snapshot returns the cluster as it is now. Its list of pods belongs to the world: a caller that keeps the list copies it.
func (w *World) snapshot(ctx context.Context) *engine.Snapshot {
	s := *w.base
	s.Now = w.agenda.now
	s.Pods = w.units.pods
	s.Nodes = make([]*corev1.Node, 0, len(w.seatList))
	for _, seat := range w.seatList {
		s.Nodes = append(s.Nodes, seat.node)
	}
	if w.needBudgets {
		w.countBudgets()
	}
	s.NodeClaims = append(s.NodeClaims[:0:0], w.claims.list...)
	s.PodDisruptionBudgets = w.budgets()
	s.ResourceClaims = append(s.ResourceClaims[:0:0], w.devices.claims.list...)
	s.Classes = make([]engine.Class, 0, len(w.markets.list))
	for _, m := range w.markets.list {
		class := m.class
		class.InstanceTypes = m.catalog(ctx, w.agenda.now)
		s.Classes = append(s.Classes, class)
	}
	return &s
}

// provision makes a plan for the pods that wait and carries it out.
func (w *World) provision(ctx context.Context) {
	w.timetable.beginPlan()
	if len(w.unbound.list) == 0 && !w.anyToMove() {
		return
	}
	w.meter.Passes++
	s := w.snapshot(ctx)
	var plan *engine.Plan
	if w.cfg.Policy == Baseline {
		plan = w.baselinePlan(s)
	} else {
		plan = provisioning.Plan(s, w.cfg.Options, &w.cache)
	}
	for _, launch := range plan.Launches {
		if pool := w.pool(launch.NodePool); pool != nil {
			w.addClaim(pool, launch, nil)
		}
	}
	w.remember(plan)
	w.timetable.unplaced = len(plan.Unplaced) > 0
	if len(plan.Launches) > 0 {
		w.again = againFirst
		return
	}
	if len(w.unbound.list) == 0 || w.asking {
		return
	}
	// Nothing to do now: sold-out offerings may be available later.
	w.asking = true
	w.agenda.after(w.again, func() {
		w.asking = false
		w.pending.pods = w.pending.pods || len(w.unbound.list) > 0
		w.timetable.wantMachines()
	})
	w.again = min(2*w.again, againMost)
}

// remember writes the plan's launch backoffs and learned devices on the NodePools.
func (w *World) remember(plan *engine.Plan) {
	for _, change := range plan.Backoffs {
		w.annotatePool(change.NodePool, v1.LaunchBackoffAnnotationKey, change.Text)
	}
	for _, change := range plan.LearnedDevices {
		w.annotatePool(change.NodePool, v1.LearnedDevicesAnnotationKey, change.Text)
	}
}

func (w *World) annotatePool(name, key, text string) {
	pools := slices.Clone(w.base.NodePools)
	for i, p := range pools {
		if p.Name == name {
			pools[i] = p.DeepCopy()
			metav1.SetMetaDataAnnotation(&pools[i].ObjectMeta, key, text)
		}
	}
	w.base.NodePools = pools
}

// anyToMove reports whether leaving nodes run pods that will need another node.
func (w *World) anyToMove() bool {
	return slices.ContainsFunc(w.seatList, func(s *seat) bool {
		if claim := w.claimOf(s); claim == nil || claim.DeletionTimestamp == nil && s.node.DeletionTimestamp == nil {
			return false
		}
		return slices.ContainsFunc(s.units, func(u *unit) bool { return kube.IsReschedulable(u.pod) })
	})
}

func (w *World) noteChange() { w.timetable.noteChange(w.size()) }

// size returns the numbers of pods and nodes.
func (w *World) size() (pods, nodes int) { return len(w.units.list), len(w.seatList) }

// disrupt makes a disruption plan and begins its disruptions.
func (w *World) disrupt(ctx context.Context) {
	w.timetable.beginLook()
	w.observe(ctx)
	w.meter.Passes++
	s := w.snapshot(ctx)
	s.EarlierPasses = w.passes
	opt := w.cfg.Options
	opt.LookAgain = max(1, time.Duration(len(s.Nodes))*lookAgain)
	plan := disruption.Plan(s, opt, &w.cache)
	w.passes = plan.Passes
	w.kept = plan.Kept
	w.timetable.pressing = slices.ContainsFunc(plan.Disruptions, func(d engine.Disruption) bool { return d.Reason != v1.Underutilized && d.Reason != v1.Empty })
	if w.cfg.Audit {
		w.audit(s, opt, plan)
		if w.cfg.Policy != Baseline {
			w.auditStays(plan)
		}
	}
	if w.cfg.Policy == Baseline {
		plan.Disruptions = w.baselineDisruptions(s, plan)
	}
	for _, d := range plan.Disruptions {
		w.beginOrder(d)
	}
	for _, k := range plan.Kept {
		switch k.Reason.Code {
		case engine.ConsolidateAfter, engine.Unsettled, engine.OwnerMoved, engine.BudgetExhausted, engine.Paused, engine.OutsideMoveWindow,
			engine.TakenBack, engine.PodsExpected:
			w.noteChange() // time alone changes that
			return
		case engine.NoCheaperPlace, engine.SavesTooLittle: // a pod of twice the age costs less to move
			w.timetable.noteAge(w.size())
		}
	}
	if w.timetable.mayYield() { // if sold-out offerings become available
		w.noteChange()
	}
}

// observe takes the steps in which claims record that pods left, or that nodes have been quiet for long enough, if a decision may depend on these
// records. For pods that are still on a node, the engine knows when they were bound.
func (w *World) observe(ctx context.Context) {
	for _, name := range w.pending.observed.take() {
		claim, ok := w.claims.get(name)
		if !ok {
			delete(w.due, name)
			continue
		}
		s, due := w.seatOf(claim), w.due[name]
		switch {
		case s != nil && s.left.After(claim.Status.LastPodEventTime.Time), v1.IsTrue(claim, v1.ConditionConsolidatable),
			!due.IsZero() && !w.agenda.now.Before(due):
			delete(w.due, name)
			w.stepClaim(ctx, name)
		case !due.IsZero():
			w.pending.observed.add(name)
			w.noteChange()
		}
	}
}

// lookAgain schedules the next look at a claim without a change; 0 means never. A node in use waits until the next disruption pass.
func (w *World) lookAgain(name string, after time.Duration) {
	claim, ok := w.claims.get(name)
	if ok && after > 0 && after < time.Hour && claim.DeletionTimestamp == nil && v1.IsTrue(claim, v1.ConditionInitialized) {
		w.due[name] = w.agenda.now.Add(after)
		w.pending.observed.add(name)
		w.noteChange()
		return
	}
	w.wake(name, after)
}

// collect removes machines without claims, and claims without machines.
func (w *World) collect(ctx context.Context) {
	for _, m := range w.markets.list {
		if m.provider == nil {
			continue
		}
		machines, err := m.provider.Machines(ctx)
		if err != nil {
			continue // throttled: the next round tries again
		}
		s := w.snapshot(ctx)
		claims := s.NodeClaims
		for _, orphan := range lifecycle.Orphans(claims, s.Nodes, machines, "", w.agenda.now) {
			w.laws.violate("machine %s has no claim", orphan.Machine.ID)
			if orphan.Terminate {
				_ = m.provider.Terminate(ctx, orphan.Machine.ID) // what failed is tried again by the next round
				w.stir(m)
			}
		}
		for _, claim := range lifecycle.Lost(claims, s.Nodes, machines) {
			if w.markets.of(claim) == m {
				w.deleteClaim(claim.Name, engine.CauseGarbageCollected)
			}
		}
	}
	w.agenda.after(collectEvery, func() { w.collect(ctx) })
}
