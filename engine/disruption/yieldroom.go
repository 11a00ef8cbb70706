package disruption

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/provisioning"
	"tenon.sh/engine/yield"
)

// yieldRoom removes machines that only keep room if their pool's limits leave too little for waiting pods, because limits should affect room before
// pods, even if the room was there first. For each machine that the pods would get, it removes as few as needed, or none if the removal helps no pod,
// because the room would then get a machine again.
func (d *planner) yieldRoom() {
	pools := d.roomAtLimits()
	if len(pools) == 0 {
		return
	}
	refused := d.planWithout(nil).Unplaced
	if !slices.ContainsFunc(refused, func(u engine.Unplaced) bool {
		return slices.ContainsFunc(u.Reasons, func(r engine.Reason) bool { return r.Code == engine.LimitReached && pools[r.NodePool] != nil })
	}) {
		return
	}
	// With more machines than budgets allow, the plan might put pods together on a machine that exceeds the limits.
	plan := d.planWithout(d.mayGo(pools, false))
	if len(plan.Unplaced) >= len(refused) {
		if plan = d.planWithout(d.mayGo(pools, true)); len(plan.Unplaced) >= len(refused) {
			return
		}
	}
	for _, y := range d.helping(d.yields(plan, pools), refused) {
		var evictees []*inventory.PodInfo
		for _, m := range y.Machines {
			evictees = append(evictees, d.evictees(m)...)
		}
		if !d.guards.Allow(evictees).OK() {
			continue // PodDisruptionBudgets do not allow all of these evictions together
		}
		for _, m := range y.Machines {
			d.spend(m)
		}
		d.add(provisioning.Group{Machines: y.Machines}, method{reason: v1.Empty}).YieldsTo = y.Pods
	}
}

// yields chooses, for each launch of the plan that exceeds its pool's limits, the machines that are removed to make room for it. It returns them with
// the launch's pods.
func (d *planner) yields(plan *engine.Plan, pools map[string]*yield.Pool) (out []provisioning.Group) {
	waiting := d.waiting()
	for i := range plan.Launches {
		l := &plan.Launches[i]
		p := pools[l.NodePool]
		if p == nil || len(l.Pods) == 0 {
			continue
		}
		c := p.For(append(l.Gangs, l.Name)[0], d.counts(l), waitingSince(l, plan.Launches, waiting), d.s.Now)
		var machines []*inventory.Machine
		for _, number := range c.Gone {
			machines = append(machines, d.p.Machines[number])
		}
		if c.Made && len(machines) > 0 {
			out = append(out, provisioning.Group{Machines: machines, Pods: l.Pods})
			continue
		}
		for _, m := range machines {
			switch {
			case c.TooMany:
				d.setReason(m, engine.Reason{Code: engine.BudgetExhausted, NodePool: m.Pool(), Have: fmt.Sprintf("%s now, and pod %s needs the place of %d", engine.Plural(p.Most, "more node"), l.Pods[0], len(machines))})
			case d.s.Now.Before(c.From):
				d.setReason(m, engine.Reason{Code: engine.NotEmpty, NodePool: m.Pool(), Have: d.occupants(m), Need: fmt.Sprintf("; from %s on it makes way for pod %s, whose machine was not to be had when this one was bought", engine.ClockText(c.From), l.Pods[0])})
			}
		}
	}
	return out
}

// counts returns the amounts that a machine of the launch uses of its pool's limits, one for each type that the launch lists.
func (d *planner) counts(l *engine.Launch) (out []capacity.Vector) {
	types, class := d.cache.TypesOf(d.s), d.budgets[l.NodePool].Rules.Pool.Spec.Template.Spec.NodeClassRef
	for _, name := range l.InstanceTypes {
		if t := types.Find(class, l.NodePool, name); t != nil {
			list := corev1.ResourceList{v1.ResourceNodes: kube.Quantity(v1.ResourceNodes, 1)}
			kube.AddList(list, t.Capacity)
			out = append(out, d.p.Names.Vector(list))
		}
	}
	return out
}

// helping leaves out the groups that help no refused pod.
func (d *planner) helping(yields []provisioning.Group, refused []engine.Unplaced) []provisioning.Group {
	for range mostAims {
		var gone []*inventory.Machine
		for _, y := range yields {
			gone = append(gone, y.Machines...)
		}
		if len(gone) == 0 {
			return nil
		}
		waits := d.planWithout(gone).Unplaced
		if len(waits) >= len(refused) {
			return nil
		}
		was, is := unplacedIn(refused), unplacedIn(waits)
		kept := slices.DeleteFunc(slices.Clone(yields), func(y provisioning.Group) bool {
			return !slices.ContainsFunc(y.Pods, func(id engine.PodID) bool { return was[id] && !is[id] })
		})
		// Another pod with the same requests may get the place.
		if len(kept) == len(yields) || len(kept) == 0 && len(refused)-len(waits) >= len(yields) {
			return yields
		}
		yields = kept
	}
	return nil
}

func unplacedIn(list []engine.Unplaced) map[engine.PodID]bool {
	out := make(map[engine.PodID]bool, len(list))
	for _, u := range list {
		out[u.Pod] = true
	}
	return out
}

// waitingSince returns the creation time of the oldest waiting pod that needs a machine like this one: of the launch's pool, and of a listed type.
func waitingSince(l *engine.Launch, launches []engine.Launch, waiting map[engine.PodID]time.Time) time.Time {
	var first time.Time
	for i := range launches {
		other := &launches[i]
		if other.NodePool != l.NodePool || !slices.ContainsFunc(other.InstanceTypes, func(t string) bool { return slices.Contains(l.InstanceTypes, t) }) {
			continue
		}
		for _, id := range other.Pods {
			if at, ok := waiting[id]; ok && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
	}
	return first
}

// roomAtLimits returns, by name, the pools with machines that only keep room and may go, and with limits that may leave too little for
// waiting pods.
func (d *planner) roomAtLimits() map[string]*yield.Pool {
	out, waiting := map[string]*yield.Pool{}, len(d.waiting())
	if len(d.room) == 0 || waiting == 0 {
		return out
	}
	for i, pool := range d.p.Pools {
		// If the limits leave room for one machine for each pod, the limits keep no pod waiting.
		model := &d.p.Packing.Pools[i]
		if slices.ContainsFunc(model.Options, func(o packing.Option) bool { return o.Charge.Times(model.Left, waiting) < waiting }) {
			name := pool.NodePool.Name
			out[name] = &yield.Pool{Left: model.Left.Clone(), Most: d.budgets[name].LeftWithoutReplacement(v1.Empty)}
		}
	}
	for _, machine := range d.ranked() {
		p := out[machine.Pool()]
		if p == nil {
			continue
		}
		m := yield.Machine{Number: machine.Number, Counts: d.p.Names.Vector(inventory.PoolUsage([]*inventory.Machine{machine}, machine.Pool())), Created: machine.Claim.CreationTimestamp.Time, ForRoom: len(kube.PlannedPods(machine.Claim)) == 0}
		if machine.Leaving || d.taken[machine] {
			p.Left.Add(m.Counts, 1)
			m.Counts = make(capacity.Vector, len(m.Counts))
		} else {
			m.Yields = d.mayYield(machine)
		}
		if len(machine.Expected) == 0 && !slices.ContainsFunc(d.moving(machine), isPod) {
			p.Unused = append(p.Unused, m)
		}
	}
	maps.DeleteFunc(out, func(_ string, p *yield.Pool) bool {
		return !slices.ContainsFunc(p.Unused, func(m yield.Machine) bool { return m.Yields })
	})
	return out
}

// mayYield reports whether the machine keeps nothing but room and could be removed if it were empty, budgets aside.
func (d *planner) mayYield(m *inventory.Machine) bool {
	_, barred := d.verdicts[m]
	return !barred && d.keepsOnlyRoom(m) && d.expected[m] == nil && d.halted(m).OK() && d.held(m).OK() && d.consolidatable(m, true).OK() && d.blocked(m).OK()
}

// mayGo lists the machines that may be removed: of each pool as many as budgets allow, those first that are likely to be the largest, or all.
func (d *planner) mayGo(pools map[string]*yield.Pool, all bool) (out []*inventory.Machine) {
	for _, p := range pools {
		n := 0
		for _, m := range p.Unused {
			if m.Yields && (all || n < p.Most) {
				n++
				out = append(out, d.p.Machines[m.Number])
			}
		}
	}
	return out
}

// waiting returns the waiting pods that have no place yet, with the times of their creation.
func (d *planner) waiting() map[engine.PodID]time.Time {
	out := map[engine.PodID]time.Time{}
	for _, c := range d.p.Classes {
		for _, pod := range c.Pods {
			if _, placed := d.assigned[pod]; !placed && isPod(pod) {
				out[kube.PodID(pod)] = pod.CreationTimestamp.Time
			}
		}
	}
	return out
}

// planWithout returns the plan for waiting pods as if the machines were being deleted, together with all others that are removed anyway. It plans no
// room, because pods have priority over room.
func (d *planner) planWithout(gone []*inventory.Machine) *engine.Plan {
	goes, leaves := inventory.MachineSetOf(len(d.p.Machines), gone), map[*v1.NodeClaim]bool{}
	for _, m := range d.p.Machines {
		leaves[m.Claim] = leaves[m.Claim] || m.Leaving || d.taken[m] || goes.Has(m)
	}
	next := *provisioning.WithDeleted(d.given, leaves)
	next.CapacityBuffers = nil
	return provisioning.Plan(&next, d.opt, nil)
}
