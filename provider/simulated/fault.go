package simulated

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
)

// The kinds of Fault.
const (
	FaultShort         = "short"          // the selected offerings are sold out for the time of For
	FaultReclaim       = "reclaim"        // Share of the selected machines get a notice and end
	FaultThrottle      = "throttle"       // the selected calls' token buckets shrink to Factor for the time of For
	FaultOutage        = "outage"         // the selected zone, by default the first, starts nothing for the time of For
	FaultStale         = "stale"          // reads find new machines later by Lag, for the time of For
	FaultPrice         = "price"          // the selected offerings cost Factor times as much for the time of For
	FaultKill          = "kill"           // the selected machines die without notice
	FaultNeverRegister = "never-register" // the next Count machines never show up as nodes
)

// Fault is something that goes wrong at a set time.
type Fault struct {
	// At is the time since the cloud came into being; For is how long it lasts, 0 for ever. The notices of a reclaim are
	// given within For, 0 meaning three minutes.
	At   metav1.Duration `json:"at"`
	What string          `json:"what"`
	For  metav1.Duration `json:"for,omitzero"`
	// Selector says what is hit; one without any field is everything.
	Selector Selector        `json:"selector,omitzero"`
	Share    float64         `json:"share,omitempty"`
	Factor   float64         `json:"factor,omitempty"`
	Lag      metav1.Duration `json:"lag,omitzero"`
	Count    int             `json:"count,omitempty"`
}

// Selector picks offerings and machines; every field that is set has to match.
type Selector struct {
	InstanceType string `json:"instanceType,omitempty"`
	Family       string `json:"family,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
	// Machine is the name of a machine's claim.
	Machine string `json:"machine,omitempty"`
	// Call is a kind of call: Describe, Launch, LaunchMachines, Terminate or TerminateMachines.
	Call string `json:"call,omitempty"`
}

func (s Selector) matches(id engine.OfferingID) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	return same(s.InstanceType, id.InstanceType) && same(s.Family, familyOf(id.InstanceType)) &&
		same(s.Zone, id.Zone) && same(s.CapacityType, id.CapacityType)
}

// ReadFaults reads a list of faults in JSON; name is what errors call the file.
func ReadFaults(r io.Reader, name string) ([]Fault, error) {
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	var faults []Fault
	if err := decoder.Decode(&faults); err != nil {
		return nil, fmt.Errorf("fault script %s: it must be a JSON array of faults: %w", name, err)
	}
	for i, f := range faults {
		if err := f.check(); err != nil {
			return nil, fmt.Errorf("fault script %s: fault number %d: %w", name, i+1, err)
		}
	}
	return faults, nil
}

// check says what is wrong with a fault.
func (f Fault) check() error {
	kinds := []string{FaultShort, FaultReclaim, FaultThrottle, FaultOutage, FaultStale, FaultPrice, FaultKill, FaultNeverRegister}
	calls := []string{"", "Describe", "Launch", "LaunchMachines", "Terminate", "TerminateMachines"}
	switch {
	case !slices.Contains(kinds, f.What):
		return fmt.Errorf("what: %q is none of %s", f.What, strings.Join(kinds, ", "))
	case f.At.Duration < 0 || f.For.Duration < 0 || f.Lag.Duration < 0:
		return fmt.Errorf("%s: at, for and lag cannot be negative", f.What)
	case f.What == FaultReclaim && (f.Share <= 0 || f.Share > 1):
		return fmt.Errorf("reclaim: share: %v is not above 0 and at most 1", f.Share)
	case (f.What == FaultThrottle || f.What == FaultPrice) && f.Factor < 0:
		return fmt.Errorf("%s: factor: %v is negative", f.What, f.Factor)
	case f.What == FaultStale && f.Lag.Duration == 0:
		return fmt.Errorf("stale: lag: missing")
	case f.What == FaultNeverRegister && f.Count <= 0:
		return fmt.Errorf("never-register: count: %d is not above 0", f.Count)
	case !slices.Contains(calls, f.Selector.Call):
		return fmt.Errorf("%s: selector.call: %q is none of %s", f.What, f.Selector.Call, strings.Join(calls[1:], ", "))
	}
	return nil
}

// Inject adds a fault at run time. Its At is taken from now on.
func (c *Cloud) Inject(f Fault) error {
	if err := f.check(); err != nil {
		return fmt.Errorf("inject a fault: %w", err)
	}
	now := c.lock()
	defer c.mu.Unlock()
	f.At.Duration += now.Sub(c.epoch)
	at := c.done
	for at < len(c.faults) && c.faults[at].At.Duration <= f.At.Duration {
		at++
	}
	c.faults = append(c.faults[:at:at], append([]Fault{f}, c.faults[at:]...)...)
	c.listed = listing{}
	c.advance(now)
	return nil
}

// runFaults lets the faults happen that happen at an instant.
func (c *Cloud) runFaults(now time.Time) {
	for ; c.done < len(c.faults); c.done++ {
		f := c.faults[c.done]
		at := c.epoch.Add(f.At.Duration)
		if at.After(now) {
			return
		}
		event := "fault/" + strconv.Itoa(c.done)
		switch f.What {
		case FaultNeverRegister:
			c.silent += f.Count
		case FaultReclaim, FaultKill:
			c.hit(f, at, event)
		}
	}
}

// hit takes or kills the machines that a fault selects.
func (c *Cloud) hit(f Fault, at time.Time, event string) {
	for _, r := range c.ordered() {
		if !f.Selector.matches(r.Offering) || f.Selector.Machine != "" && f.Selector.Machine != r.Machine.Claim {
			continue
		}
		if f.What == FaultReclaim {
			c.reclaim(r, at, cmp.Or(f.For.Duration, reclaimSpread), f.Share, event)
			c.sellOut(r.Offering, at, c.cfg.Profile.Spot.SoldOutFor)
			continue
		}
		if !r.gone(at) && !r.Machine.Created.After(at) {
			r.Dies = at
			c.expect(r, at)
		}
	}
}

// active lists the faults of a kind that last at a time.
func (c *Cloud) active(what string, at time.Time) []Fault {
	var list []Fault
	for _, f := range c.faults {
		begin := c.epoch.Add(f.At.Duration)
		if f.What == what && !at.Before(begin) && (f.For.Duration == 0 || at.Before(begin.Add(f.For.Duration))) {
			list = append(list, f)
		}
	}
	return list
}

func (c *Cloud) inOutage(id engine.OfferingID, at time.Time) bool {
	for _, f := range c.active(FaultOutage, at) {
		if f.Selector.Zone == "" {
			f.Selector.Zone = c.zones[0]
		}
		if f.Selector.matches(id) {
			return true
		}
	}
	for _, f := range c.active(FaultShort, at) {
		if f.Selector.matches(id) {
			return true
		}
	}
	return false
}

func (c *Cloud) throttleFault(call string, at time.Time) float64 {
	factor := 1.0
	for _, f := range c.active(FaultThrottle, at) {
		if f.Selector.Call == "" || f.Selector.Call == call {
			factor *= f.Factor
		}
	}
	return factor
}

func (c *Cloud) stale(at time.Time) time.Duration {
	lag := time.Duration(0)
	for _, f := range c.active(FaultStale, at) {
		lag = max(lag, f.Lag.Duration)
	}
	return lag
}

func (c *Cloud) priceFault(id engine.OfferingID, at time.Time) float64 {
	factor := 1.0
	for _, f := range c.active(FaultPrice, at) {
		if f.Selector.matches(id) {
			factor *= f.Factor
		}
	}
	return factor
}

func (c *Cloud) hasPriceFaults() bool {
	for _, f := range c.faults {
		if f.What == FaultPrice {
			return true
		}
	}
	return false
}
