package disruption

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/engine/scheduler"
)

// consolidating returns the method of consolidate, which observes the budgets for nodes and for pods.
func (c *consolidator) consolidating() method {
	return method{
		reason: v1.Underutilized, refusal: func(*inventory.Machine) engine.Reason { return engine.Reason{} }, heeds: func(*inventory.Machine) bool { return true },
		trial: trialOptions{closed: c.goesSoon, nominations: c.nominations},
	}
}

// batchNow returns the machines that may be removed now within budgets. Groups that gain most for each machine come first. The other groups get the
// reason of the budget that keeps them.
func (c *consolidator) batchNow(found []provisioning.Group) []*inventory.Machine {
	gain := func(p provisioning.Group) float64 {
		sum := 0.0
		for _, machine := range p.Machines {
			sum += c.planner.price(machine) - c.cost[c.index[machine.Number]]/usualPayback.Hours()
		}
		for i := range p.Launches {
			sum -= p.Launches[i].Worst()
		}
		return sum / float64(len(p.Machines))
	}
	slices.SortStableFunc(found, func(a, b provisioning.Group) int { return cmp.Compare(gain(b), gain(a)) })
	m := c.consolidating()
	var out []*inventory.Machine
	for _, p := range found {
		if c.reservePart(p, m) {
			out = append(out, p.Machines...)
		}
	}
	return out
}

// reservePart takes places in all budgets for the group's machines that are removed now. It takes none yet for machines that follow later. It returns
// false, and takes no place at all, if a budget has too little left.
func (c *consolidator) reservePart(p provisioning.Group, m method) bool {
	first := c.firstOf(p)
	if refused := c.reserveAll(first, m); refused != nil {
		for _, machine := range p.Machines {
			c.setReason(machine, refused(machine))
		}
		return false
	}
	for _, machine := range p.Machines {
		if !slices.Contains(first, machine) {
			c.nextTurn = append(c.nextTurn, machine)
			c.setReason(machine, c.later[machine])
		}
	}
	return true
}

// firstOf lists the machines of the group that are removed now. A machine that a budget keeps can follow later.
func (c *consolidator) firstOf(p provisioning.Group) []*inventory.Machine {
	if first := slices.DeleteFunc(slices.Clone(p.Machines), func(m *inventory.Machine) bool { return !c.later[m].OK() }); len(first) > 0 {
		return first
	}
	return p.Machines
}

// reserveAll takes the places of all of the machines in all budgets, or of none. If it takes none, it returns a function that gives each machine's
// reason.
func (c *consolidator) reserveAll(machines []*inventory.Machine, m method) func(machine *inventory.Machine) engine.Reason {
	owners := c.ownersOf(machines)
	if owner, ok := c.moves.Allow(owners); !ok {
		return func(machine *inventory.Machine) engine.Reason { return c.ownerMoved(owner, machine) }
	}
	for i, machine := range machines {
		if r := c.reserve(machine, m); !r.OK() {
			for _, other := range machines[:i] {
				c.release(other, m, r)
			}
			return func(*inventory.Machine) engine.Reason { return r }
		}
	}
	c.moves.Use(owners)
	return nil
}

// beginWave begins the removal of the machines in wave. The search found them together with others, so beginWave plans them once more alone, and
// replays how kube-scheduler would place the pods.
func (c *consolidator) beginWave(wave []*inventory.Machine) {
	m := c.consolidating()
	stay := func(p provisioning.Group, r engine.Reason) {
		c.note(p, r)
		for _, machine := range p.Machines {
			if !slices.Contains(c.nextTurn, machine) {
				c.release(machine, m, r)
			}
		}
	}
	for range mostAims {
		t := c.attempt(wave)
		stranded := t.stranded()
		var good []provisioning.Group
		parts := t.groups(wave)
		for _, p := range parts {
			if r := c.judgePart(p, stranded); r.OK() {
				good = append(good, p)
			} else {
				stay(p, r)
			}
		}
		landing := c.landing(&t, good, stay)
		if wave = provisioning.MachinesOf(landing); len(wave) == 0 {
			return
		}
		if c.tried.covers(wave, len(c.sources) > manySources) {
			for _, p := range landing {
				c.note(p, engine.Reason{})
			}
			all := c.tried.part(wave)
			for _, part := range c.begin(all, c.withoutNextTurn(all.groups(wave)), m) {
				why := c.takeVerb(part, m)
				for _, machine := range part.Machines {
					c.release(machine, m, why)
				}
			}
			return
		}
	}
	for _, machine := range wave {
		if !slices.Contains(c.nextTurn, machine) {
			c.release(machine, m, engine.Reason{Code: engine.BudgetExhausted, NodePool: machine.Pool(), Have: "what goes with it has to go first"})
		}
	}
}

// withoutNextTurn removes from the groups the machines that are removed later, and the launches that only the pods of these machines need. The other
// launches stay large enough for all pods.
func (c *consolidator) withoutNextTurn(parts []provisioning.Group) []provisioning.Group {
	inNextTurn := func(m *inventory.Machine) bool { return slices.Contains(c.nextTurn, m) }
	goesNow := func(id engine.PodID) bool { return !inNextTurn(c.tried.on[id].from) }
	for i := range parts {
		p := &parts[i]
		p.Later = slices.DeleteFunc(slices.Clone(p.Machines), func(m *inventory.Machine) bool { return !inNextTurn(m) })
		p.Machines = slices.DeleteFunc(p.Machines, inNextTurn)
		all := len(p.Launches)
		p.Launches = slices.DeleteFunc(p.Launches, func(l engine.Launch) bool { return len(l.Pods) > 0 && !slices.ContainsFunc(l.Pods, goesNow) })
		if len(p.Launches) < all {
			p.Later = nil // the later machines need a launch of their own
		}
		for l := range p.Launches {
			p.Launches[l].Pods = slices.DeleteFunc(slices.Clone(p.Launches[l].Pods), func(id engine.PodID) bool { return !goesNow(id) })
		}
	}
	return parts
}

// mostReplays bounds how often groups are left out of one wave.
const mostReplays = 16

// landing leaves out groups with pods for which kube-scheduler, placing pods by its scores, would find no room. Each time it leaves out the worst
// sixth of these groups, at least one, until all pods have room.
func (c *consolidator) landing(t *tried, parts []provisioning.Group, stay func(p provisioning.Group, r engine.Reason)) []provisioning.Group {
	filled := false
	for left := mostReplays; len(parts) > 0; left-- {
		lost := c.replay(parts)
		if len(lost) == 0 {
			return parts
		}
		if !filled {
			t.fill(parts)
			filled = true
		}
		lacking := make([]int, len(parts))
		sample := make([]engine.Reason, len(parts))
		var worst []int
		for i, p := range parts {
			for _, id := range p.Pods {
				if code := lost[id]; code != "" {
					if lacking[i]++; lacking[i] == 1 {
						worst, sample[i] = append(worst, i), engine.Reason{Code: code, NodePool: p.Machines[0].Pool(), Key: id.String()}
					}
				}
			}
		}
		if len(worst) == 0 { // only pods that wait anyway have no room
			return parts
		}
		slices.SortStableFunc(worst, func(a, b int) int { return cmp.Compare(lacking[b], lacking[a]) })
		if left == 0 { // groups without a lost pod wait too
			for i, p := range parts {
				r := sample[i]
				if r.OK() {
					r = sample[worst[0]]
					r.NodePool = p.Machines[0].Pool()
				}
				stay(p, r)
			}
			return nil
		}
		out := map[int]bool{}
		for _, i := range worst[:max(1, len(worst)/6)] {
			out[i] = true
			stay(parts[i], sample[i])
		}
		kept := parts[:0:0]
		for i, p := range parts {
			if !out[i] {
				kept = append(kept, p)
			}
		}
		parts = kept
	}
	return nil
}

// replay returns the pods for which kube-scheduler would find no place after the removal of the groups: no node takes them, or they have to run on
// demand and only spot machines take them.
func (c *consolidator) replay(parts []provisioning.Group) map[engine.PodID]engine.Code {
	r := &scheduler.Replay{Snapshot: c.s, Options: c.opt, Removed: map[string]bool{}, Cache: c.cache}
	for m := range c.taken {
		r.Removed[m.Name()] = true
	}
	for _, p := range parts {
		r.Launches = append(r.Launches, p.Launches...)
		for _, m := range p.Machines {
			r.Removed[m.Name()] = true
			r.Pods = append(r.Pods, c.moving(m)...)
		}
	}
	for _, d := range c.plan.Disruptions {
		r.Launches = append(r.Launches, d.Replacements...)
	}
	for i := range r.Launches { // the names of launches begin at one in each trial
		r.Launches[i].Name += fmt.Sprintf("/%d", i)
	}
	lost, landing := map[engine.PodID]engine.Code{}, r.Land()
	for _, id := range landing.Stranded {
		lost[id] = engine.WouldStrand
	}
	c.offDemand(r, landing, lost)
	return lost
}

// mayBeTaken reports whether the cloud may interrupt the launch's machine. All its offerings are of one kind, so the first one decides.
func (c *consolidator) mayBeTaken(l *engine.Launch) bool {
	id := l.Offerings[0].OfferingID
	if id.Reservation == "" {
		return id.CapacityType == v1.CapacityTypeSpot
	}
	t := c.cache.TypesOf(c.s).Find(kube.PoolsByName(c.s)[l.NodePool].Spec.Template.Spec.NodeClassRef, l.NodePool, id.InstanceType)
	return t.Find(id).Labels[kube.InterruptibleReservation] == "true"
}

// offDemand adds the pods that have to run on demand and land on spot machines, unless other pods of their owners land on demand instead,
// because neither kube-scheduler nor the owner distinguishes them.
func (c *consolidator) offDemand(r *scheduler.Replay, landing scheduler.Landing, lost map[engine.PodID]engine.Code) {
	if !slices.ContainsFunc(r.Pods, kube.MustRunOnDemand) {
		return
	}
	spot := map[string]bool{}
	for _, m := range c.p.Machines {
		spot[m.Name()] = !inventory.RunsOnDemand(m.Labels)
	}
	for i := range r.Launches {
		l := &r.Launches[i]
		spot[l.Name] = len(l.Offerings) > 0 && c.mayBeTaken(l)
	}
	moving, short := map[engine.PodID]*corev1.Pod{}, map[string]int{} // short: by owner, the number of pods that still have to land on demand
	for _, pod := range r.Pods {
		moving[kube.PodID(pod)] = pod
		if kube.MustRunOnDemand(pod) {
			short[c.cache.OwnerOf(pod)]++
		}
	}
	for _, to := range landing.Placements {
		if pod := moving[to.Pod]; pod != nil && !spot[to.Node] {
			short[c.cache.OwnerOf(pod)]--
		}
	}
	for _, to := range landing.Placements {
		if pod := moving[to.Pod]; pod != nil && spot[to.Node] && kube.MustRunOnDemand(pod) && short[c.cache.OwnerOf(pod)] > 0 {
			short[c.cache.OwnerOf(pod)]--
			lost[to.Pod] = engine.OnDemandShareLost
		}
	}
}
