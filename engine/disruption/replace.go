package disruption

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/engine/replacement"
)

// method is one way to choose and remove nodes that need not be empty.
type method struct {
	reason v1.DisruptionReason
	// refusal returns why a machine that the method would remove stays for now, budgets aside.
	refusal func(m *inventory.Machine) engine.Reason
	trial   trialOptions
	// unbound reports whether budgets do not apply to the machine; nil if they always apply.
	unbound func(m *inventory.Machine) bool
	// heeds reports whether PodDisruptionBudgets may keep the machine.
	heeds func(m *inventory.Machine) bool
	// terminatesFirst is true if a machine may be removed before its replacement is ready in case the replacement has no room until then.
	terminatesFirst bool
	// drainWithin returns how long the drain may take; nil to leave it to the claim.
	drainWithin func(m *inventory.Machine) *time.Duration
}

// mostTrials bounds the trials of one method, because nodes that cannot be replaced could make a pass endless.
const mostTrials = 40

// removeNow removes as many of the candidates as can be removed now, in their order. It tries as many together as budgets allow. If no other machine
// can run a pod, the pod's machine is kept, and another candidate is tried instead.
func (d *planner) removeNow(candidates []*inventory.Machine, m method) {
	trials := 0
	for len(candidates) > 0 && trials < mostTrials && !d.opt.Stopped() {
		var chosen, rest []*inventory.Machine
		for _, machine := range candidates {
			if r := d.reserve(machine, m); r.Code == engine.BudgetExhausted || r.Code == engine.EvictionBlocked || r.Code == engine.GangRuns {
				d.setReason(machine, r)
				rest = append(rest, machine)
			} else if !r.OK() {
				d.setReason(machine, r)
			} else {
				chosen = append(chosen, machine)
			}
		}
		if len(chosen) == 0 {
			return
		}
		if d.settle(chosen, m, &trials) == 0 {
			return
		}
		candidates = rest
	}
}

// reserve takes the machine's place in all budgets. If a budget has no place left, reserve returns the reason.
func (d *planner) reserve(machine *inventory.Machine, m method) engine.Reason {
	if r := m.refusal(machine); !r.OK() {
		return r
	}
	if m.heeds(machine) {
		if r := d.guards.Allow(d.evictees(machine)); !r.OK() {
			r.NodePool = machine.Pool()
			return r
		}
	}
	if !m.isUnbound(machine) {
		if r := d.budgets[machine.Pool()].Take(m.reason); !r.OK() {
			return r
		}
	}
	if m.heeds(machine) {
		d.guards.Use(d.evictees(machine), 1)
	}
	d.loseGangs(machine, 1)
	return engine.Reason{}
}

// release gives back the places that reserve took for a machine, and sets the reason why it is kept.
func (d *planner) release(machine *inventory.Machine, m method, r engine.Reason) {
	d.setReason(machine, r)
	if !m.isUnbound(machine) {
		d.budgets[machine.Pool()].Release()
	}
	if m.heeds(machine) {
		d.guards.Use(d.evictees(machine), -1)
	}
	d.loseGangs(machine, -1)
}

func (m *method) isUnbound(machine *inventory.Machine) bool {
	return m.unbound != nil && m.unbound(machine)
}

// settle plans the removal of the chosen machines in trials, and begins the groups that can be removed. It returns how many machines are kept.
func (d *planner) settle(chosen []*inventory.Machine, m method, trials *int) (stayed int) {
	for len(chosen) > 0 {
		*trials++
		t := d.try(chosen, m.trial)
		stranded := t.stranded()
		if len(stranded) > 0 && m.trial.closed != nil { // a pod had better move twice than not at all
			if open := d.try(chosen, trialOptions{held: m.trial.held, usualPrices: m.trial.usualPrices}); len(open.plan.Unplaced) < len(t.plan.Unplaced) {
				t, stranded = open, open.stranded()
			}
		}
		if len(stranded) == 0 {
			for _, part := range d.begin(t, t.groups(chosen), m) { // if a budget has too little left for the whole group, try half of it
				why, half := d.takeVerb(part, m), part.Machines[:len(part.Machines)/2]
				if *trials >= mostTrials {
					half = nil
				}
				for _, machine := range part.Machines[len(half):] {
					d.release(machine, m, why)
				}
				stayed += len(part.Machines) - len(half) + d.settle(half, m, trials)
			}
			return stayed
		}
		var fine []*inventory.Machine
		for _, machine := range chosen {
			if stranded[machine].OK() {
				fine = append(fine, machine)
			}
		}
		if len(fine) == 0 && len(chosen) > 1 && *trials < mostTrials {
			// Each machine alone may have a place, but there are too few places for all of them, so try fewer.
			half := (len(chosen) + 1) / 2
			for _, machine := range chosen[half:] {
				d.release(machine, m, stranded[machine])
			}
			stayed += len(chosen) - half
			chosen = chosen[:half]
			continue
		}
		for _, machine := range chosen {
			if r := stranded[machine]; !r.OK() {
				d.release(machine, m, r)
				stayed++
			}
		}
		chosen = fine
	}
	return stayed
}

// begin adds to the plan the groups of a trial that found a place for every pod. It returns the groups for which the budgets for replaced nodes, or
// for nodes without a replacement, have too little left.
func (d *planner) begin(t tried, parts []provisioning.Group, m method) (refused []provisioning.Group) {
	t.fill(parts)
	for _, part := range parts {
		switch {
		case !d.takeVerb(part, m).OK():
			refused = append(refused, part)
		case replacement.GoesInPart(m.reason):
			for _, small := range part.Cut() {
				d.add(small, m)
			}
		default:
			d.add(part, m)
		}
	}
	d.remember(provisioning.MachinesOf(parts), t.moved())
	return refused
}

// moved returns the existing machines where the pods that leave will run.
func (t *tried) moved() map[*corev1.Pod]string {
	out := map[*corev1.Pod]string{}
	for _, p := range t.plan.Placements {
		out[t.on[p.Pod].pod] = p.Node
	}
	return out
}

// takeVerb takes the machines' places in the budget for nodes that are replaced or, if the group has no launch, for nodes that are only removed.
func (d *planner) takeVerb(p provisioning.Group, m method) engine.Reason {
	replacing := len(p.Launches) > 0
	count := map[string]int{}
	for _, machine := range p.Machines {
		count[machine.Pool()]++
	}
	for _, machine := range p.Machines {
		if r := d.budgets[machine.Pool()].WayRefusal(m.reason, replacing, count[machine.Pool()]); !r.OK() {
			return r
		}
	}
	for name, n := range count {
		d.budgets[name].UseWay(replacing, n)
	}
	return engine.Reason{}
}

// add adds the disruption of a group to the plan.
func (d *planner) add(p provisioning.Group, m method) *engine.Disruption {
	x := engine.Disruption{Reason: m.reason, Replacements: p.Launches, Pods: p.Pods, Moves: slices.Clone(p.Moves)}
	for _, machine := range p.Machines {
		x.Nodes, x.Claims = append(x.Nodes, machine.Node.Name), append(x.Claims, machine.Claim.Name)
		x.SavingPerHour += d.price(machine)
		d.taken[machine] = true
		if m.drainWithin != nil {
			x.DrainWithin = shorter(x.DrainWithin, m.drainWithin(machine))
		}
	}
	if m.reason == v1.Underutilized {
		x.OwnersMoved = d.ownersOf(p.Machines)
	}
	for _, machine := range p.Later {
		x.NodesLater = append(x.NodesLater, machine.Node.Name)
	}
	d.holdBack(&x, p, m)
	names := map[string]string{} // the names of launches begin at one in each trial
	for i := range p.Launches {
		l := &p.Launches[i]
		x.SavingPerHour -= l.Price
		d.launched[l.NodePool]++
		names[l.Name] = fmt.Sprintf("%s-%d", l.NodePool, d.launched[l.NodePool])
		l.Name = names[l.Name]
	}
	for i := range x.Moves {
		x.Moves[i].Node = cmp.Or(names[x.Moves[i].Node], x.Moves[i].Node)
	}
	d.plan.Disruptions = append(d.plan.Disruptions, x)
	return &d.plan.Disruptions[len(d.plan.Disruptions)-1]
}

// holdBack lists the group's protected pods, which run until the nodes' deadline. The saving includes the price of their new places, which are
// started shortly before the deadline.
func (d *planner) holdBack(x *engine.Disruption, p provisioning.Group, m method) {
	moves, within := map[engine.PodID]bool{}, x.DrainWithin
	for _, id := range p.Pods {
		moves[id] = true
	}
	for _, machine := range p.Machines {
		if period := machine.Claim.Spec.TerminationGracePeriod; period != nil {
			within = shorter(within, &period.Duration)
		}
		for _, pod := range d.moving(machine) {
			if id := kube.PodID(pod); !moves[id] {
				x.Held = append(x.Held, id)
			}
		}
	}
	if len(x.Held) == 0 || within == nil {
		return
	}
	x.HeldUntil = d.s.Now.Add(*within).Truncate(time.Second)
	for _, held := range []bool{true, false} {
		for _, l := range d.try(p.Machines, trialOptions{held: held, closed: m.trial.closed}).plan.Launches {
			if !held {
				l.Price = -l.Price
			}
			x.SavingPerHour -= l.Price
		}
	}
}

func shorter(a, b *time.Duration) *time.Duration {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// remember records where the pods of removed machines will run, for the later methods.
func (d *planner) remember(gone []*inventory.Machine, on map[*corev1.Pod]string) {
	byName := map[string]*inventory.Machine{}
	for _, m := range d.p.Machines {
		byName[m.Name()] = m
	}
	for _, m := range gone {
		if !d.taken[m] {
			continue
		}
		for _, pod := range m.Bound {
			if to := byName[on[pod]]; to != nil {
				d.assigned[pod] = to.Number
				d.receives(to, pod)
				if !kube.IsBufferPod(pod) { // a later plan may place room anywhere
					d.moved[to] = pod
				}
			}
		}
	}
}

// receives records that the pod will run on the machine.
func (d *planner) receives(m *inventory.Machine, pod *corev1.Pod) {
	if d.expected[m] == nil {
		d.expected[m] = pod
	}
}

// emptiesFirst moves the machines without pods that would have to move to the front, and otherwise keeps the order.
func (d *planner) emptiesFirst(hosts []*inventory.Machine, before func(a, b *inventory.Machine) int) {
	slices.SortFunc(hosts, func(a, b *inventory.Machine) int {
		if x, y := len(d.moving(a)) == 0, len(d.moving(b)) == 0; x != y {
			if x {
				return -1
			}
			return 1
		}
		if n := before(a, b); n != 0 {
			return n
		}
		return provisioning.CompareNames(a, b)
	})
}
