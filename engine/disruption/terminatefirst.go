package disruption

import (
	"fmt"
	"slices"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
)

// terminateFirst removes machines that cannot be replaced because their pods need a slot of a full capacity reservation and the machine
// itself holds one. The pods then wait until the new machine has the slot.
func (d *planner) terminateFirst(candidates []*inventory.Machine, m method) {
	for trials := 0; len(candidates) > 0 && trials < mostTrials; candidates = candidates[1:] {
		machine := candidates[0]
		reservation := d.reservationOf(machine)
		if d.taken[machine] || d.why[machine].Code != engine.CannotMove || reservation == "" {
			continue
		}
		trials++
		if alone := d.try([]*inventory.Machine{machine}, m.trial); len(alone.stranded()) == 0 { // only the other candidates prevented its replacement
			continue
		}
		options := m.trial
		options.freed = reservation
		t := d.try([]*inventory.Machine{machine}, options)
		if len(t.stranded()) > 0 || !slices.ContainsFunc(t.plan.Launches, func(l engine.Launch) bool { return drawsFrom(l, reservation) }) {
			continue
		}
		r := d.reserve(machine, m)
		if r.OK() {
			if r = d.mayTerminateFirst(machine, m, reservation); !r.OK() {
				d.release(machine, m, r)
				continue
			}
			d.addFirst(machine, m, engine.NoReservedCapacity, t)
		}
		d.setReason(machine, r)
	}
}

// staticTerminatesFirst removes a machine of a static pool before its replacement is started, if it cannot be replaced otherwise: the pool's limit on
// nodes is reached, or the pool's machines come from full capacity reservations and the machine holds a slot of one. It returns true if it has
// decided about the machine.
func (d *planner) staticTerminatesFirst(machine *inventory.Machine, m method, why engine.Reason) bool {
	pool := d.budgets[machine.Pool()].Rules.Pool
	stamped := d.stampOf(pool)
	cause, reservation, launch := engine.StaticAtLimit, "", stamped.launch
	switch {
	case why.Code == engine.LimitReached && why.Key == string(v1.ResourceNodes) && stamped.why.OK():
	case stamped.why.OK() || d.reservationOf(machine) == "" || why != stamped.why && why.Code != engine.LimitReached:
		return false
	default:
		cause, reservation = engine.NoReservedCapacity, d.reservationOf(machine)
		if _, r := stampLaunch(withoutShortages(d.s), d.opt, pool); r.OK() { // offerings outside reservations may soon be available again
			return false
		}
		var r engine.Reason
		if launch, r = stampLaunch(withFreed(d.s, reservation), d.opt, pool); !r.OK() || !drawsFrom(launch, reservation) {
			return false
		}
	}
	r := d.reserve(machine, m)
	if r.OK() {
		if r = d.mayTerminateFirst(machine, m, reservation); !r.OK() {
			d.release(machine, m, r)
			return true
		}
		d.addFirst(machine, m, cause, tried{plan: &engine.Plan{Launches: []engine.Launch{launch}}})
	}
	d.setReason(machine, r)
	return true
}

// withoutShortages returns the snapshot as if nothing were sold out except reservations and offerings without a price.
func withoutShortages(s *engine.Snapshot) *engine.Snapshot {
	return withOfferings(s, func(o *engine.Offering) { o.SoldOut = o.SoldOut && (o.Reservation != "" || o.Unpriced) })
}

// withFreed returns the snapshot as if the reservation had one slot more.
func withFreed(s *engine.Snapshot, reservation string) *engine.Snapshot {
	return withOfferings(s, func(o *engine.Offering) {
		if o.Reservation == reservation {
			o.Slots++
		}
	})
}

func withOfferings(s *engine.Snapshot, change func(o *engine.Offering)) *engine.Snapshot {
	out := *s
	out.Classes = slices.Clone(s.Classes)
	for i := range out.Classes {
		types := slices.Clone(out.Classes[i].InstanceTypes)
		out.Classes[i].InstanceTypes = types
		for j := range types {
			types[j].Offerings = slices.Clone(types[j].Offerings)
			for k := range types[j].Offerings {
				change(&types[j].Offerings[k])
			}
		}
	}
	return &out
}

// reservationOf returns the capacity reservation of which the machine holds a slot. It returns "" if there is none, or if it is no longer offered.
func (cs *candidates) reservationOf(m *inventory.Machine) string {
	if m.Labels[v1.CapacityTypeLabelKey] != v1.CapacityTypeReserved {
		return ""
	}
	return cs.cache.ReservationOf(cs.s, m.MachineInfo)
}

func drawsFrom(l engine.Launch, reservation string) bool {
	return slices.ContainsFunc(l.Offerings, func(o engine.LaunchOffering) bool { return o.Reservation == reservation })
}

// mayTerminateFirst takes the machine's place in the budgets for nodes that are removed without a replacement. The budgets also need room for nodes
// that were removed first and are not yet back, because budgets ignore them and all nodes of a pool could be away. mayTerminateFirst also returns a
// reason while a pod waits for the next slot of the reservation.
func (d *planner) mayTerminateFirst(machine *inventory.Machine, m method, reservation string) engine.Reason {
	b := d.budgets[machine.Pool()]
	if away := d.away(b.Rules.Pool); away > 0 && b.Left(m.reason) < away { // reserve has already charged the machine
		return engine.Reason{Code: engine.BudgetExhausted, NodePool: machine.Pool(), Have: fmt.Sprintf("no more node now, with %d on the way", away)}
	}
	if reservation != "" {
		if id := d.awaits(reservation); id.Name != "" {
			return engine.Reason{Code: engine.ReplacingHalted, NodePool: machine.Pool(), Have: fmt.Sprintf("pod %s waits for the next slot of reservation %s", id, reservation)}
		}
	}
	return d.takeVerb(provisioning.Group{Machines: []*inventory.Machine{machine}}, m)
}

// away returns the number of the pool's machines that budgets ignore: machines that start or stop, and machines that a static pool lacks.
func (d *planner) away(pool *v1.NodePool) int {
	all, away := 0, 0
	for _, m := range d.p.Machines {
		if m.Claim == nil || m.Claim.Labels[v1.NodePoolLabelKey] != pool.Name {
			continue
		}
		all++
		if m.Stopping || !m.Leaving && !m.IsInitialized() {
			away++
		}
	}
	if pool.Spec.Replicas != nil {
		away += max(0, int(*pool.Spec.Replicas)-all)
	}
	return away
}

// awaits returns the id of a waiting pod that would take the next slot of the reservation. It returns the zero id if there is none.
func (d *planner) awaits(reservation string) engine.PodID {
	if id, known := d.awaited[reservation]; known {
		return id
	}
	var id engine.PodID
	if len(d.p.Classes) > 0 {
		for _, l := range provisioning.Plan(withFreed(d.s, reservation), d.opt, nil).Launches {
			if drawsFrom(l, reservation) && len(l.Pods) > 0 {
				id = l.Pods[0]
				break
			}
		}
	}
	d.awaited[reservation] = id
	return id
}

// addFirst begins the disruption of a machine whose replacement is started after its removal, as for the pods of any leaving machine.
func (d *planner) addFirst(machine *inventory.Machine, m method, cause engine.TerminateFirstCause, t tried) {
	price := 0.0
	for _, l := range t.plan.Launches {
		price += l.Price
	}
	t.plan.Launches = nil
	parts := []provisioning.Group{{Machines: []*inventory.Machine{machine}}}
	t.fill(parts)
	if len(t.on) == 0 {
		parts[0].Pods = d.movingIDs(machine)
	}
	x := d.add(parts[0], m)
	x.TerminateFirst = cause
	x.SavingPerHour -= price
	d.remember(parts[0].Machines, t.moved())
}

// movingIDs returns the ids of the machine's pods that need another place.
func (d *planner) movingIDs(m *inventory.Machine) []engine.PodID {
	var pods []engine.PodID
	for _, pod := range d.moving(m) {
		pods = append(pods, kube.PodID(pod))
	}
	slices.SortFunc(pods, provisioning.ComparePods)
	return pods
}
