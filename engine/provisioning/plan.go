package provisioning

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/booking"
	"tenon.sh/engine/buffer"
	"tenon.sh/engine/deviceplan"
	"tenon.sh/engine/gang"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/ondemand"
)

// A plan is made in four steps, each of which calls the next, perhaps several times: planRequests, planBuffers, planGangs, planOnce.

// Plan decides how to run the pods without a node: on existing nodes, on machines that are starting, or on new ones. It also keeps the room of
// CapacityBuffers. It reads only s and opt (cache, which may be nil, only saves work); the same input always gives the same Plan.
func Plan(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache) *engine.Plan {
	if cache == nil {
		cache = &inventory.Cache{}
	}
	if len(s.PodGroups) > 0 {
		s = gang.InOnePlace(s, inventory.KeptBy[gang.Copies](cache))
	}
	s, notes := ondemand.Marked(s, inventory.KeptBy[ondemand.Copies](cache))
	plan, p := planRequests(s, opt, cache)
	p.sumUpGangs(plan, s)
	learned, forgotten := deviceplan.LearnedChanges(s, cache)
	plan.Notes = append(append(plan.Notes, notes...), forgotten...)
	plan.LearnedDevices = learned
	if s.ExpectedPods != nil {
		p.judge().Expected(plan, p.Backoffs.Refused)
	}
	return plan
}

// planRequests plans all pods, with the room of requests. Room that is held, or found on nodes now, is closed to all other pods. Machines
// are started for all pods of a request or for none.
func planRequests(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache) (*engine.Plan, *Problem) {
	if len(s.ProvisioningRequests) == 0 {
		return planBuffers(s, opt, cache)
	}
	made := inventory.KeptBy[booking.Pods](cache)
	demands := demandsOf(s, made)
	findRoom(s, opt, cache, demands, false)
	next := withBookings(s, demands, made)
	made.Forget(next.Pods[len(s.Pods):])
	var waiting []*corev1.Pod
	for _, d := range demands {
		if d.wants() && !d.placed && d.Phase == booking.Seeking && d.Buys() {
			waiting = append(waiting, d.pods...)
			next = withGroup(next, d)
		}
	}
	plan, p := planBuffers(withPods(next, waiting), opt, cache)
	p.sumUpRequests(plan, demands, s)
	return plan, p
}

// planBuffers plans all pods of the snapshot, and also keeps the room of CapacityBuffers.
func planBuffers(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache) (*engine.Plan, *Problem) {
	if len(s.CapacityBuffers) == 0 {
		return planGangs(s, opt, cache)
	}
	buffers := buffer.Resolve(s, opt.BufferLimits)
	waiting := inventory.KeptBy[buffer.Pods](cache).Of(buffers)
	plan, p := planGangs(withPods(s, waiting), opt, cache)
	room := roomOf(waiting)
	if lost := room.without(plan); lost > 0 && len(waiting) > 0 {
		// Pods come before room, but rules between pods may have cost a pod its place for room.
		if alone, _ := planGangs(s, opt, cache); len(alone.Unplaced) < lost {
			p.onExisting(alone, room)
			plan = alone
		}
	}
	p.sumUp(plan, buffers, waiting)
	return plan, p
}

// planGangs plans all pods of the snapshot. For a gang, machines are started for enough of its pods or for none. It leaves out the first gang in order
// that cannot start, and plans the others again with its room. It also returns the problem of the plan.
func planGangs(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache) (*engine.Plan, *Problem) {
	pods := cache.Take(s, opt.Threads)
	plan, p := planOnce(s, opt, pods)
	var without []engine.Unplaced
	for round := 1; ; round++ {
		short := p.cannotStart(plan)
		if len(short) == 0 {
			break
		}
		if round < mostGangRounds {
			short = p.firstAndAlike(short)
		}
		for _, g := range short {
			refused := g.refusals(plan)
			without = append(without, refused...)
			pods.Hold(g.Waiting)
		}
		plan, p = planOnce(s, opt, pods)
	}
	if len(without) > 0 {
		plan.Unplaced = append(plan.Unplaced, without...)
		slices.SortFunc(plan.Unplaced, func(a, b engine.Unplaced) int { return ComparePods(a.Pod, b.Pod) })
	}
	plan.Commitments = p.usesOfCommitments(s, plan.Launches)
	return plan, p
}

// planOnce plans all pods of the index that are not held back.
func planOnce(s *engine.Snapshot, opt engine.Options, pods *inventory.PodIndex) (*engine.Plan, *Problem) {
	pods.Patient = false
	p := ReadProblem(s, opt, pods, nil)
	if len(p.Classes) == 0 { // no pod waits
		p.sell()
		return &engine.Plan{Unplaced: p.refused, Notes: p.notes(), Backoffs: p.Backoffs.Changes}, p
	}
	p, solution := solveWithin(p, s, opt, pods)
	for range mostPriceRounds {
		if !p.tooDear(solution) {
			break
		}
		p, solution = solveWithin(readProblem(s, opt, pods, nil, p.parts), s, opt, pods)
	}
	if other, better := p.withoutCover(solution, pods); other != nil {
		p, solution = other, better
	}
	plan := NewPlan(p, solution)
	if len(plan.Unplaced) == 0 || !slices.ContainsFunc(p.Machines, func(m *inventory.Machine) bool { return m.Overdue }) {
		return plan, p
	}
	pods.Patient = true // a machine that is late is better than none
	other, solution := solveWithin(readProblem(s, opt, pods, nil, p.parts), s, opt, pods)
	if patient := NewPlan(other, solution); len(patient.Unplaced) < len(plan.Unplaced) {
		return patient, other
	}
	return plan, p
}
