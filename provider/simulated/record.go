package simulated

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// Record holds the cloud's data about one machine. A zero time means never.
type Record struct {
	Machine  engine.Machine
	Offering engine.OfferingID
	// Visible is the time from which reads find the machine.
	Visible time.Time
	// Registers is the time at which its node registers, Ready the time at which the node is ready.
	Registers, Ready time.Time
	// Dies is the time at which the machine ends on its own, or because the cloud takes it. Stopped is the time at which it ends because of
	// Terminate.
	Dies, Stopped time.Time
	// Reclaimed is true if the cloud took the machine away.
	Reclaimed bool
	// Allocatable is the node's real allocatable; the field of Machine is the estimate.
	Allocatable corev1.ResourceList
	// Comes lists the faults that make the machine's node differ from the node that its offering promises.
	Comes []Fault
	// Cost is the machine's cost up to Billed, in USD.
	Cost   float64
	Billed time.Time
}

// end returns the time at which the machine is gone, the zero time if it is not known yet.
func (r *Record) end() time.Time {
	if r.Dies.IsZero() || !r.Stopped.IsZero() && r.Stopped.Before(r.Dies) {
		return r.Stopped
	}
	return r.Dies
}

func (r *Record) gone(now time.Time) bool {
	end := r.end()
	return !end.IsZero() && !now.Before(end)
}

// Boot is the state of one machine's boot. A zero time means never.
type Boot struct {
	ID              engine.MachineID
	Claim, ClaimUID string
	// Registers is the time at which the node registers, Ready the time at which it is ready, Ends the time at which the machine is gone.
	Registers, Ready, Ends time.Time
	Leaving                bool
	// Held is true if the node becomes ready only after a fault has changed its labels.
	Held bool
}

// Boots lists the state of every machine that is not gone, ordered by ID. Unlike reads of the cloud, Boots and the methods below know a
// machine at once.
func (c *Cloud) Boots() []Boot {
	now := c.lock()
	defer c.mu.Unlock()
	running := make([]*Record, 0, len(c.machines))
	for _, r := range c.machines {
		if !r.gone(now) {
			running = append(running, r)
		}
	}
	slices.SortFunc(running, byID)
	boots := make([]Boot, len(running))
	for i, r := range running {
		boots[i] = c.boot(r)
	}
	return boots
}

// Boot returns the state of one machine, if it is not gone.
func (c *Cloud) Boot(id engine.MachineID) (b Boot, found bool) {
	now := c.lock()
	defer c.mu.Unlock()
	r := c.machines[id]
	if r == nil || r.gone(now) {
		return Boot{}, false
	}
	return c.boot(r), true
}

// Gone returns the machines of a list that are gone.
func (c *Cloud) Gone(ids []engine.MachineID) []engine.MachineID {
	now := c.lock()
	defer c.mu.Unlock()
	gone := []engine.MachineID{}
	for _, id := range ids {
		if r := c.machines[id]; r == nil || r.gone(now) {
			gone = append(gone, id)
		}
	}
	return gone
}

func (c *Cloud) boot(r *Record) Boot {
	m := r.Machine
	held := slices.ContainsFunc(r.Comes, func(f Fault) bool {
		_, found := c.nodeFaults[nodeFaultID(m.ID, f)]
		return found && f.What == FaultLabel
	})
	return Boot{m.ID, m.Claim, m.ClaimUID, r.Registers, r.Ready, r.end(), m.Leaving, held}
}

// Inspect returns a machine as it is, without the lag of reads, and the real allocatable of its node.
func (c *Cloud) Inspect(id engine.MachineID) (machine engine.Machine, allocatable corev1.ResourceList, found bool) {
	now := c.lock()
	defer c.mu.Unlock()
	r := c.machines[id]
	if r == nil || r.gone(now) {
		return engine.Machine{}, nil, false
	}
	return r.Machine, r.Allocatable, true
}

// OfferingOf returns the offering that a machine's labels name.
func OfferingOf(m engine.Machine) engine.OfferingID {
	return engine.OfferingID{
		InstanceType: m.Labels[corev1.LabelInstanceTypeStable],
		Zone:         m.Labels[corev1.LabelTopologyZone],
		CapacityType: m.Labels[v1.CapacityTypeLabelKey],
	}
}

// Adopt adds a machine that was running before the cloud was made. It registers at the time `registers`, or immediately if that time is past.
func (c *Cloud) Adopt(m engine.Machine, offering engine.OfferingID, registers time.Time) {
	now := c.lock()
	defer c.mu.Unlock()
	if r := c.machines[m.ID]; r != nil && !r.gone(now) {
		return
	}
	if m.Created.IsZero() || m.Created.After(now) {
		m.Created = now
	}
	offering.Reservation = c.reservationOf(m, offering)
	r := &Record{Machine: m, Offering: offering, Registers: registers, Ready: registers, Allocatable: m.Allocatable, Billed: now}
	c.keep(r)
	for _, f := range c.active(FaultSlices, now) {
		if c.hits(f, r) {
			r.Comes = append(r.Comes, f)
		}
	}
	c.foretellDevices(r)
}

// Next returns the time of the next known event: a machine registers, becomes ready or ends, or a fault happens.
func (c *Cloud) Next() (next time.Time, found bool) {
	now := c.lock()
	defer c.mu.Unlock()
	consider := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	consider(c.nextOfMachines(now))
	for _, n := range c.notices {
		consider(n.At)
	}
	for _, m := range c.nodeFaults {
		consider(m.At)
	}
	for _, w := range c.reclaims {
		consider(w.next)
	}
	if c.done < len(c.faults) {
		consider(c.epoch.Add(c.faults[c.done].At.Duration))
	}
	return next, !next.IsZero()
}

func (c *Cloud) keep(r *Record) {
	c.machines[r.Machine.ID] = r
	c.expect(r, r.Registers, r.Ready, r.end())
	c.byToken[token(r.Machine.Claim, r.Machine.ClaimUID)] = r.Machine.ID
	c.watchForReclaims(r)
}

// token returns the idempotency token of a launch: the claim's UID, or its name if it has none.
func token(claim, uid string) string { return cmp.Or(uid, "name/"+claim) }

// forget drops machines that ended more than an hour ago, as clouds do.
func (c *Cloud) forget(now time.Time) {
	for id, r := range c.machines {
		if end := r.end(); r.gone(now) && now.Sub(end) > time.Hour {
			c.retire(r, now)
			delete(c.machines, id)
			if t := token(r.Machine.Claim, r.Machine.ClaimUID); c.byToken[t] == id {
				delete(c.byToken, t)
			}
		}
	}
}

// retire adds the cost and the death of a machine to the counters before the machine is forgotten.
func (c *Cloud) retire(r *Record, now time.Time) {
	c.bill(r, now)
	c.counters.Cost += r.Cost
	if r.died(now) {
		c.counters.Died++
	}
}

// died reports whether the machine ended without notice and without Terminate.
func (r *Record) died(now time.Time) bool {
	return r.gone(now) && !r.Reclaimed && r.end().Equal(r.Dies)
}
