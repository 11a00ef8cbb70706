package simulated

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// Record is all that the cloud knows of one machine. A zero time means never.
type Record struct {
	Machine  engine.Machine
	Offering engine.OfferingID
	// Visible is when reads begin to find the machine.
	Visible time.Time
	// Registers is when its node shows up, Ready when that is ready.
	Registers, Ready time.Time
	// Dies is when the machine ends without having been told to; Stopped when it does because it was told to.
	Dies, Stopped time.Time
	// Reclaimed is true if the cloud took it away.
	Reclaimed bool
	// Allocatable is what the node really reports; the machine's own field is the estimate.
	Allocatable corev1.ResourceList
	// Comes is what makes the machine another one than was bought.
	Comes []Fault
	// Cost is what the machine has cost up to Billed, in USD.
	Cost   float64
	Billed time.Time
}

// end is when the machine is gone, the zero time if that is not settled.
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

// Boot is how far one machine has come. A zero time means never.
type Boot struct {
	ID              engine.MachineID
	Claim, ClaimUID string
	// Registers is when the node shows up, Ready when it is ready; Ends is when the machine is gone.
	Registers, Ready, Ends time.Time
	Leaving                bool
	// Held says that the node is not ready before its labels have been changed, by a fault that is to be settled.
	Held bool
}

// Boots lists how far every machine that is not gone has come, ordered by ID. Unlike reads of the cloud, this and the
// calls below know of a machine at once: it is the machine's own view, not that of a caller.
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

// Boot is how far one machine has come, if it is not gone.
func (c *Cloud) Boot(id engine.MachineID) (b Boot, found bool) {
	now := c.lock()
	defer c.mu.Unlock()
	r := c.machines[id]
	if r == nil || r.gone(now) {
		return Boot{}, false
	}
	return c.boot(r), true
}

// Gone picks from a list the machines that are gone.
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

// Inspect returns a machine as it is, whatever reads would say, and what its node can really allocate.
func (c *Cloud) Inspect(id engine.MachineID) (machine engine.Machine, allocatable corev1.ResourceList, found bool) {
	now := c.lock()
	defer c.mu.Unlock()
	r := c.machines[id]
	if r == nil || r.gone(now) {
		return engine.Machine{}, nil, false
	}
	return r.Machine, r.Allocatable, true
}

// OfferingOf reads from a machine's labels which offering it is of.
func OfferingOf(m engine.Machine) engine.OfferingID {
	return engine.OfferingID{
		InstanceType: m.Labels[corev1.LabelInstanceTypeStable],
		Zone:         m.Labels[corev1.LabelTopologyZone],
		CapacityType: m.Labels[v1.CapacityTypeLabelKey],
	}
}

// Adopt makes a machine known that runs already, from before the cloud was made. It registers at once, or at
// registers if that is later.
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

// Next is when the next thing happens that the cloud knows of: a machine registers, is ready or ends, or something is
// set to go wrong.
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

// token is what makes launches idempotent: the claim's UID, or its name if it has none.
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

// retire keeps the sums of a machine that is gone and will be forgotten.
func (c *Cloud) retire(r *Record, now time.Time) {
	c.bill(r, now)
	c.counters.Cost += r.Cost
	if r.died(now) {
		c.counters.Died++
	}
}

// died reports whether the machine ended without anybody having said so.
func (r *Record) died(now time.Time) bool {
	return r.gone(now) && !r.Reclaimed && r.end().Equal(r.Dies)
}
