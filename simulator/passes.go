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
	// A plan waits until no pending pod has been created for batchIdle, but not longer than batchMost, because pods are planned together.
	batchIdle, batchMost = time.Second, 10 * time.Second
	// againFirst is the time until a plan without launches is made again while pods wait. It doubles up to againMost.
	againFirst, againMost = time.Minute, 10 * time.Minute
	// lookAgain, times the number of nodes, is how often a pass looks at all nodes instead of changed nodes only. This takes longer with more nodes,
	// and matters less. With 500 nodes it is once in 100 minutes.
	lookAgain = 12 * time.Second
	// enough is the share of all pods that must leave nodes before the next look at the nodes follows soon, because room may be saved. Otherwise the
	// pause before the look is quietTimes as long.
	enough, quietTimes = 0.015, 3
	// smallWorld is the number of nodes up to which nodes are looked at each minute, as the controllers do, because a look is cheap.
	smallWorld = 50
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
	s.Classes = make([]engine.Class, 0, len(w.markets))
	for _, m := range w.markets {
		class := m.class
		class.InstanceTypes = m.catalog(ctx, w.agenda.now)
		s.Classes = append(s.Classes, class)
	}
	return &s
}

// wantMachines schedules a provisioning plan soon.
func (w *World) wantMachines() {
	now := w.agenda.now
	if w.wanted.IsZero() {
		w.wanted = now
	}
	at := now.Add(batchIdle)
	if latest := w.wanted.Add(batchMost); latest.Before(at) {
		at = latest
	}
	if at.Equal(w.planAt) {
		return
	}
	w.planAt, w.provisionNow = at, w.provisionNow && !at.After(now) // a pod that is created at the time of the plan delays the plan
	w.agenda.at(at, func() {
		if w.planAt.Equal(at) {
			w.provisionNow = true
		}
	})
}

// provision makes a plan for the pods that wait and carries it out.
func (w *World) provision(ctx context.Context) {
	w.wanted, w.planAt, w.provisionNow = time.Time{}, time.Time{}, false // the plan is for all pods until now
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
	w.unplaced = len(plan.Unplaced) > 0
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
		w.unscheduled = w.unscheduled || len(w.unbound.list) > 0
		w.wantMachines()
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

// noteChange schedules a look at the nodes that may be disrupted. Looks have a configured pause, and a longer one if there is little to
// gain.
func (w *World) noteChange() {
	w.changed = w.agenda.now
	w.lookAt(w.disrupted.Add(w.lookPause()))
}

// lookPause returns the shortest time from one look at the nodes to the next.
func (w *World) lookPause() time.Duration {
	pause := w.cfg.disruptEvery()
	if !w.pressing && !w.mayYield() && float64(w.departed) < enough*float64(len(w.units.list)) {
		pause *= quietTimes
	}
	if w.cfg.Policy == Baseline || w.cfg.DisruptEvery == 0 && len(w.seatList) <= smallWorld {
		pause = min(pause, baselineLook)
	}
	return pause
}

// lookAt schedules a look at the nodes at a time, unless the next look is sooner.
func (w *World) lookAt(at time.Time) {
	at = later(w.agenda.now.Add(batchIdle), at)
	if !w.looks.IsZero() && !at.Before(w.looks) {
		return
	}
	w.looks = at
	w.agenda.at(at, func() {
		if w.looks.Equal(at) {
			w.looks, w.disruptNow = time.Time{}, true
		}
	})
}

// disrupt makes a disruption plan and begins its disruptions.
func (w *World) disrupt(ctx context.Context) {
	w.disruptNow, w.disrupted, w.departed = false, w.agenda.now, 0
	w.observe(ctx)
	w.meter.Passes++
	s := w.snapshot(ctx)
	s.EarlierPasses = w.passes
	opt := w.cfg.Options
	opt.LookAgain = max(1, time.Duration(len(s.Nodes))*lookAgain)
	plan := disruption.Plan(s, opt, &w.cache)
	w.passes = plan.Passes
	w.kept = plan.Kept
	w.pressing = slices.ContainsFunc(plan.Disruptions, func(d engine.Disruption) bool { return d.Reason != v1.Underutilized && d.Reason != v1.Empty })
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
			w.lookAt(w.agenda.now.Add(max(w.lookPause(), w.agenda.now.Sub(w.changed))))
		}
	}
	if w.mayYield() { // if sold-out offerings become available
		w.noteChange()
	}
}

// mayYield reports whether the room of CapacityBuffers may be the only reason why pods wait.
func (w *World) mayYield() bool { return w.unplaced && len(w.base.CapacityBuffers) > 0 }

// observe takes the steps in which claims record that pods left, or that nodes have been quiet for long enough, if a decision may depend on these
// records. For pods that are still on a node, the engine knows when they were bound.
func (w *World) observe(ctx context.Context) {
	for _, name := range w.observed.take() {
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
			w.observed.add(name)
			w.noteChange()
		}
	}
}

// lookAgain schedules the next look at a claim without a change; 0 means never. A node in use waits until the next disruption pass.
func (w *World) lookAgain(name string, after time.Duration) {
	claim, ok := w.claims.get(name)
	if ok && after > 0 && after < time.Hour && claim.DeletionTimestamp == nil && v1.IsTrue(claim, v1.ConditionInitialized) {
		w.due[name] = w.agenda.now.Add(after)
		w.observed.add(name)
		w.noteChange()
		return
	}
	w.wake(name, after)
}

// collect removes machines without claims, and claims without machines.
func (w *World) collect(ctx context.Context) {
	for _, m := range w.markets {
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
			if w.marketOf(claim) == m {
				w.deleteClaim(claim.Name, engine.CauseGarbageCollected)
			}
		}
	}
	w.agenda.after(collectEvery, func() { w.collect(ctx) })
}
