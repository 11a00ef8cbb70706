package disruption

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/gang"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/ondemand"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/provisioning"
)

// Plan decides which nodes to remove: nodes that are broken, empty, drifted, old, or not worth their price. It reads only s and opt, and returns the
// same Plan for the same input.
//
// With s.EarlierPasses it is the next pass of a caller that keeps Plan.Passes of each pass. After consolidation has looked at all machines, its next
// passes within a minute (or Options.LookAgain) look only at machines whose pods changed or that a budget put off, and at those with most to gain;
// small clusters (fewSources) are looked at wholly each time. The pass also moves no pods of pools that are scaled down just now. It may leave to a
// later pass a move that Plan would find otherwise. All other methods look at all machines each time.
func Plan(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache) *engine.Plan {
	d := newPlanner(s, opt, cache)
	d.judge()
	for _, method := range []func(){d.repair, d.driftStatic, d.removeEmpty, d.yieldRoom, d.drift, d.expire, d.consolidate} {
		if !opt.Stopped() {
			method()
		}
	}
	return d.finish()
}

func newPlanner(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache) *planner {
	if cache == nil {
		cache = &inventory.Cache{} // trials of one pass share it
	}
	given := s
	s = gang.InOnePlace(s, inventory.KeptBy[gang.Copies](cache))
	s, _ = ondemand.Marked(s, inventory.KeptBy[ondemand.Copies](cache))
	s, booked := provisioning.WithRequests(s, opt, cache)
	s, room := provisioning.WithBuffers(s, opt, cache)
	room = room.Join(booked)
	pods := cache.Take(s, opt.Threads)
	rollouts := inventory.RolloutsOf(pods, s.Now)
	if next := rollouts.Foreseen(s); next != s {
		s, pods = next, cache.Take(next, opt.Threads)
	}
	pods.ReadActivity(s.Now)
	p := provisioning.ReadProblem(s, opt, pods, nil)
	d := &planner{
		candidates: &candidates{
			s: s, cache: cache, passes: passesOf(s), room: room, p: p, budgets: map[string]*budget.Pass{}, guards: budget.NewGuards(s, p.Pods), rollouts: rollouts,
			nodes: map[*v1.NodeClaim][]*inventory.Machine{}, gangs: map[*gang.Gang]int{},
		},
		given: given, opt: opt, moves: budget.NewOwnerMoves(s, cache), expected: map[*inventory.Machine]*corev1.Pod{}, assigned: map[*corev1.Pod]int{},
		moved: map[*inventory.Machine]*corev1.Pod{}, verdicts: map[*inventory.Machine]engine.Reason{}, taken: map[*inventory.Machine]bool{},
		why: make(map[*inventory.Machine]engine.Reason, len(p.Machines)), launched: map[string]int{}, replaced: map[string]int{}, stamps: map[string]stamp{}, awaited: map[string]engine.PodID{}, plan: &engine.Plan{},
	}
	for _, pool := range s.NodePools {
		d.budgets[pool.Name] = budget.NewPass(s, pool, p.Machines)
	}
	for _, m := range p.Machines {
		if m.Node != nil && m.Claim != nil {
			d.nodes[m.Claim] = append(d.nodes[m.Claim], m)
		}
		if m.Leaving { // its pods are the first to use what PodDisruptionBudgets allow
			d.guards.Use(d.evictees(m), 1)
			d.loseGangs(m, 1)
		}
	}
	d.expect()
	if s.EarlierPasses != nil {
		d.noteComings()
	}
	return d
}

// expect finds the machines that will run the pods that need a place anyway. Such a machine is not idle, even if it is empty now.
func (d *planner) expect() {
	if len(d.p.Classes) == 0 {
		return
	}
	d.p.Model()
	existing := *d.p.Packing
	existing.Pools = nil
	solution := packing.Solve(&existing)
	starts := d.gangsThatStart(solution)
	for i, m := range d.p.Targets {
		for _, share := range solution.OnNodes[i] {
			for _, n := range share.Pods {
				pod := d.p.Classes[share.Class].Pods[n]
				if g := d.p.Gangs.Of(pod); g != nil && !starts[g] {
					continue // it does not start without the rest of the gang
				}
				d.assigned[pod] = m.Number
				d.receives(m, pod)
			}
		}
	}
}

// judge records a verdict for each managed machine that no method except repair may disrupt.
func (d *planner) judge() {
	for _, m := range d.p.Machines {
		if m.Claim == nil {
			continue
		}
		if r := d.ineligible(m); !r.OK() {
			d.verdicts[m] = r
			d.refuse(m, r)
		}
	}
}

// free lists the managed machines that have no verdict and are not yet chosen for removal, dearest first.
func (d *planner) free() []*inventory.Machine {
	var out []*inventory.Machine
	for _, m := range d.ranked() {
		if _, barred := d.verdicts[m]; !barred && !d.taken[m] {
			out = append(out, m)
		}
	}
	return out
}

// refuse records why a machine is kept. It does not replace an earlier reason, unless that is only that the machine is not empty.
func (d *planner) refuse(m *inventory.Machine, r engine.Reason) {
	if old, known := d.why[m]; !known || old.Code == engine.NotEmpty && old.Need == "" {
		d.why[m] = r
	}
}

// setReason replaces the reason why the machine is kept. A verdict is not replaced, unless the new reason is one of repair's.
func (d *planner) setReason(m *inventory.Machine, r engine.Reason) {
	if d.verdicts[m].OK() || slices.Contains([]engine.Code{engine.TooManyUnhealthy, engine.DoNotRepair, engine.RepairedElsewhere}, r.Code) {
		d.why[m] = r
	}
}

// removeEmpty removes machines without pods that would have to move.
func (d *planner) removeEmpty() {
	for _, m := range d.free() {
		r := d.emptyRefusal(m)
		if r.OK() {
			r = d.spend(m)
		}
		if !r.OK() {
			d.refuse(m, r)
			continue
		}
		d.add(provisioning.Group{Machines: []*inventory.Machine{m}}, method{reason: v1.Empty})
	}
}

// emptyRefusal returns why the machine may not be removed as empty, budgets aside.
func (d *planner) emptyRefusal(m *inventory.Machine) engine.Reason {
	if r := d.held(m); !r.OK() {
		return r
	}
	if len(d.moving(m)) > 0 {
		if r := d.consolidatable(m, false); !r.OK() && r.Code != engine.ConsolidateAfter {
			return r
		}
		return engine.Reason{Code: engine.NotEmpty, NodePool: m.Pool(), Have: d.occupants(m)}
	}
	if r := d.consolidatable(m, true); !r.OK() && r.Code != engine.ConsolidateAfter {
		return r
	}
	if pod := d.expected[m]; pod != nil {
		if owner := d.rollouts.Owner(pod); owner != "" {
			return engine.Reason{Code: engine.RollingOut, NodePool: m.Pool(), Key: owner, Need: "its next pods"}
		}
		return engine.Reason{Code: engine.PodsExpected, NodePool: m.Pool(), Need: kube.PodID(pod).String()}
	}
	if r := d.blocked(m); !r.OK() { // because of pods that need no other node, but that a drain evicts
		return r
	}
	if r := d.consolidatable(m, true); !r.OK() || d.budgets[m.Pool()].Rules.Retired {
		return r
	}
	return d.comesAgain(m)
}

// spend takes the place of one empty node in the pool's budgets.
func (d *planner) spend(m *inventory.Machine) engine.Reason {
	b := d.budgets[m.Pool()]
	if r := b.WayRefusal(v1.Empty, false, 1); !r.OK() {
		return r
	}
	if r := b.Take(v1.Empty); !r.OK() {
		return r
	}
	b.UseWay(false, 1)
	d.guards.Use(d.evictees(m), 1)
	return engine.Reason{}
}

// finish lists in the plan why machines are kept, and settings that could not be read.
func (d *planner) finish() *engine.Plan {
	for _, number := range d.cache.MachineListOf(d.s).InNames() {
		m := d.p.Machines[number]
		if r, kept := d.why[m]; kept && !d.taken[m] {
			k := engine.Kept{Node: m.Name(), Claim: m.ClaimName(), NodePool: m.Pool(), Reason: r}
			if r.Code == engine.DoNotDisrupt && r.Have != "" { // the protection is for a limited time
				k.Protector, _ = d.protector(m)
			}
			d.plan.Kept = append(d.plan.Kept, k)
		}
	}
	d.plan.Next = d.next()
	d.takeOutRoom()
	if d.s.EarlierPasses != nil {
		d.plan.Passes = d.passes
	}
	for _, pool := range kube.ByName(d.s.NodePools) {
		for _, r := range d.budgets[pool.Name].Rules.Problems {
			d.plan.Notes = append(d.plan.Notes, engine.Note{Object: "NodePool " + pool.Name, Reason: r})
		}
	}
	d.plan.Notes = append(d.plan.Notes, d.guards.Broken...)
	if n := budget.PausingNamespace(d.s); n != nil {
		if _, _, err := budget.ReadPause(n.Annotations[v1.PauseAnnotationKey], d.s.Now); err != nil {
			d.plan.Notes = append(d.plan.Notes, engine.Note{Object: "Namespace " + n.Name, Reason: engine.Reason{
				Code: engine.UnreadableAnnotation, Key: v1.PauseAnnotationKey, Need: err.Error(), Have: fmt.Sprintf("%q", n.Annotations[v1.PauseAnnotationKey])}})
		}
	}
	return d.plan
}
