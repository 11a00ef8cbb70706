package simulated

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
)

// Fleet is a request for machines of one kind.
type Fleet struct {
	// Targets are the wanted machines.
	Targets []Target
	// Overrides are the acceptable offerings, in order of preference.
	Overrides []Override
	// Delay is added to the machines' boot time.
	Delay time.Duration
}

// Target is one machine of a fleet, named by its claim. The UID makes the call idempotent.
type Target struct {
	Claim, ClaimUID string
}

// Override is an acceptable offering, with the labels of its machines.
type Override struct {
	engine.OfferingID
	Labels map[string]string
}

// FleetResult is the result of a fleet. A cloud may start fewer machines than requested: then Errors has the reason for each override that
// could not be used.
type FleetResult struct {
	// Machines are the machines of the first targets, in their order.
	Machines []engine.Machine
	Errors   []OverrideError
}

// OverrideError is the reason why an offering was not used.
type OverrideError struct {
	engine.OfferingID
	Code string
}

// The codes of OverrideError.
const (
	CodeNoCapacity = "InsufficientInstanceCapacity"
	CodeCPUQuota   = "VcpuLimitExceeded"
	CodeSpotQuota  = "MaxSpotInstanceCountExceeded"
	CodeReserved   = "ReservationCapacityExceeded"
)

// CreateFleet starts machines. A target whose machine exists already gets that machine. The call returns an error if it is throttled, if the
// catalog lacks an override, or if a machine of a target's name runs for another claim.
func (c *Cloud) CreateFleet(f Fleet) (FleetResult, error) {
	now := c.lock()
	defer c.mu.Unlock()
	for _, o := range f.Overrides {
		if _, found := c.offering(o.OfferingID); !found {
			return FleetResult{}, fmt.Errorf("start machines: %s is not sold", o.OfferingID)
		}
	}
	if err := c.throttle(now, "Launch", c.cfg.Profile.Throttle.Launch, 1); err != nil {
		return FleetResult{}, err
	}
	if err := c.throttle(now, "LaunchMachines", c.cfg.Profile.Throttle.LaunchMachines, float64(len(f.Targets))); err != nil {
		return FleetResult{}, err
	}
	result := FleetResult{}
	for _, target := range f.Targets {
		if r := c.machines[c.byToken[token(target.Claim, target.ClaimUID)]]; r != nil {
			result.Machines = append(result.Machines, r.Machine)
			continue
		}
		id := engine.MachineID(c.cfg.IDPrefix + target.Claim)
		if r := c.machines[id]; r != nil && !r.gone(now) {
			return result, fmt.Errorf("start machine %s: it runs already for another claim of that name (UID %s)", id, r.Machine.ClaimUID)
		}
		chosen := c.choose(f.Overrides, now, &result)
		if chosen < 0 {
			break
		}
		result.Machines = append(result.Machines, c.start(now, id, target, f.Overrides[chosen], f.Delay))
	}
	return result, nil
}

// choose returns the index of the first override that can give a machine, -1 if none can. It records each reason why earlier overrides
// cannot, once.
func (c *Cloud) choose(overrides []Override, now time.Time, result *FleetResult) int {
	for i, o := range overrides {
		refused := OverrideError{o.OfferingID, c.refusal(o.OfferingID, now)}
		if refused.Code == "" {
			return i
		}
		if !slices.Contains(result.Errors, refused) {
			c.counters.SoldOut++
			result.Errors = append(result.Errors, refused)
		}
	}
	return -1
}

// Started returns the machine that was started for a claim before, if it is not gone. It is like the repeated answer to a launch with the
// same idempotency token, and is never throttled.
func (c *Cloud) Started(t Target) (engine.Machine, bool) {
	now := c.lock()
	defer c.mu.Unlock()
	r := c.machines[c.byToken[token(t.Claim, t.ClaimUID)]]
	if r == nil || r.gone(now) {
		return engine.Machine{}, false
	}
	return r.Machine, true
}

// refusal returns the reason why an offering can give no machine now, "" if it can.
func (c *Cloud) refusal(id engine.OfferingID, now time.Time) string {
	o, _ := c.offering(id)
	if o.SoldOut || !c.hasRoom(id, now) {
		return CodeNoCapacity
	}
	if id.Reservation != "" && c.reservationsUsed(now)[id.Reservation] >= o.Slots {
		return CodeReserved
	}
	return c.overQuota(id, now)
}

func (c *Cloud) start(now time.Time, id engine.MachineID, target Target, o Override, delay time.Duration) engine.Machine {
	t := c.types[o.InstanceType]
	labels := maps.Clone(o.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelInstanceTypeStable] = o.InstanceType
	labels[corev1.LabelTopologyZone] = o.Zone
	labels[v1.CapacityTypeLabelKey] = o.CapacityType
	r := &Record{Offering: o.OfferingID, Billed: now, Machine: engine.Machine{
		ID: id, Claim: target.Claim, ClaimUID: target.ClaimUID, Labels: labels,
		Capacity: t.Capacity, Allocatable: t.Allocatable(), Created: now,
	}}
	if old := c.machines[id]; old != nil { // gone, so its name is free again
		c.retire(old, now)
		maps.DeleteFunc(c.nodeFaults, func(_ string, m NodeFault) bool { return m.Machine == id })
	}
	c.plan(r, now, delay+c.begin(r, now))
	c.take(o.OfferingID, now)
	c.counters.Launches++
	c.keep(r)
	c.foretell(r)
	return r.Machine
}

// plan draws the future of a machine: when reads show it, when it registers, if it does, and when it dies.
func (c *Cloud) plan(r *Record, now time.Time, delay time.Duration) {
	p, who := c.cfg.Profile, token(r.Machine.Claim, r.Machine.ClaimUID)
	r.Visible = now.Add(c.draws("visible", who).stage(p.Lag.Describe))
	toRegister, toReady := c.bootTime(r, now)
	r.Registers = now.Add(delay + toRegister)
	r.Ready = r.Registers.Add(toReady)
	fate := c.draws("fate", who)
	never, notReady, later := fate.uniform(), fate.uniform(), fate.uniform()
	if notReady < p.NeverReady {
		r.Ready = time.Time{}
	}
	if p.SilentDeaths > 0 {
		r.Dies = now.Add(fate.exponential(time.Duration(float64(time.Hour) / p.SilentDeaths)))
	}
	if later < p.FailsLater {
		r.Dies, r.Registers, r.Ready = r.Registers, time.Time{}, time.Time{}
	}
	if never < p.NeverRegisters || c.silent > 0 {
		c.silent = max(0, c.silent-1)
		r.Registers, r.Ready = time.Time{}, time.Time{}
	}
	r.Allocatable = r.Machine.Allocatable
	if p.AllocatableError > 0 {
		r.Allocatable = maps.Clone(r.Allocatable)
		memory := r.Allocatable[corev1.ResourceMemory]
		real := float64(memory.Value()) * (1 + p.AllocatableError*fate.normal())
		r.Allocatable[corev1.ResourceMemory] = *resource.NewQuantity(int64(real)>>10<<10, resource.BinarySI)
	}
}

// Terminate tells a machine to stop. It may be called again; it returns provider.ErrGone if there is no such machine.
func (c *Cloud) Terminate(id engine.MachineID) error {
	now := c.lock()
	defer c.mu.Unlock()
	if err := c.throttle(now, "Terminate", c.cfg.Profile.Throttle.Terminate, 1); err != nil {
		return err
	}
	if err := c.throttle(now, "TerminateMachines", c.cfg.Profile.Throttle.TerminateMachines, 1); err != nil {
		return err
	}
	r := c.machines[id]
	if r == nil || r.gone(now) {
		return provider.ErrGone
	}
	if !r.Machine.Leaving {
		r.Machine.Leaving = true
		r.Stopped = now.Add(c.draws("termination", string(id)).stage(c.cfg.Profile.Termination))
		c.expect(r, r.end())
		c.counters.Terminations++
	}
	return nil
}

// ErrUnseen means that reads do not find a machine: it never existed, is too new, or ended long ago.
var ErrUnseen = errors.New("no such machine is seen")

// Describe returns one machine. It returns provider.ErrGone if the machine has ended, and ErrUnseen if reads do not find it.
func (c *Cloud) Describe(id engine.MachineID) (engine.Machine, error) {
	now := c.lock()
	defer c.mu.Unlock()
	if err := c.throttle(now, "Describe", c.cfg.Profile.Throttle.Describe, 1); err != nil {
		return engine.Machine{}, err
	}
	r := c.machines[id]
	if r == nil || now.Before(r.Visible.Add(c.stale(now))) {
		return engine.Machine{}, ErrUnseen
	}
	if r.gone(now) {
		return engine.Machine{}, provider.ErrGone
	}
	return r.Machine, nil
}

// List returns every machine that lists show, ordered by ID.
func (c *Cloud) List() ([]engine.Machine, error) {
	now := c.lock()
	defer c.mu.Unlock()
	if err := c.throttle(now, "Describe", c.cfg.Profile.Throttle.Describe, 1); err != nil {
		return nil, err
	}
	c.forget(now)
	list, lag := []engine.Machine{}, c.cfg.Profile.Lag.List+c.stale(now)
	for _, r := range c.machines {
		if !r.gone(now) && !now.Before(r.Visible.Add(lag)) {
			list = append(list, r.Machine)
		}
	}
	sortMachines(list)
	return list, nil
}

func sortMachines(list []engine.Machine) {
	slices.SortFunc(list, func(a, b engine.Machine) int { return cmp.Compare(a.ID, b.ID) })
}
