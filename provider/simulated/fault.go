package simulated

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"tenon.sh/engine"
)

// The kinds of Fault.
const (
	FaultShort         = "short"          // the selected offerings are sold out for the duration `For`
	FaultReclaim       = "reclaim"        // the share `Share` of the selected machines gets a notice and ends
	FaultThrottle      = "throttle"       // the selected calls' token buckets have `Factor` times their usual size and refill for the duration `For`
	FaultOutage        = "outage"         // the selected zone, by default the first, starts no machines for the duration `For`
	FaultStale         = "stale"          // reads find new machines later, by the time `Lag`, for the duration `For`
	FaultPrice         = "price"          // the selected offerings cost `Factor` times as much for the duration `For`
	FaultKill          = "kill"           // the selected machines die without notice
	FaultNeverRegister = "never-register" // the next `Count` machines never register as nodes

	// These hit the selected machines that start while the fault lasts, or the share `Share` of them; a share of 0 means all.
	// For the kind slices, the driver `Driver`, or every driver, publishes `Count` devices of each pool, or `Factor` times the expected number. It
	// does so in `Parts` slices: the first comes `Lag` after the machine registers, and each further one `Lag` after the one before.
	FaultLateRegister = "late-register" // they register as nodes later, by the time `Lag`
	FaultLess         = "less"          // they have `Factor` times as much of `Resource` as in the catalog
	FaultTaint        = "taint"         // their nodes register with the taint `Taint`, or without it
	FaultLabel        = "label"         // their nodes have the label `Label`, or lack it, once they are registered
	FaultDevices      = "devices"       // they show no `Resource` until `Lag` after they register; then they show `Count`, or `Factor` times as much
	FaultAttach       = "attach"        // from the time `Lag` after they register, their CSINode has `Count` as the largest number of volumes of `Driver`
	FaultSlices       = "slices"        // their drivers publish another number of devices, or publish them later, as described above

	// These hit the nodes of the selected machines that exist at the time `At`, or the share `Share` of them. The machines run on.
	FaultGone   = "gone"   // they are deleted, even if finalizers hold them
	FaultBare   = "bare"   // the same, and the kubelets create them again, without the changes of other clients
	FaultSecond = "second" // another node registers for the same machine
)

var kinds = []string{
	FaultShort, FaultReclaim, FaultThrottle, FaultOutage, FaultStale, FaultPrice, FaultKill, FaultNeverRegister,
	FaultLateRegister, FaultLess, FaultTaint, FaultLabel, FaultDevices, FaultAttach, FaultSlices, FaultGone, FaultBare, FaultSecond,
}

// mostDevices is the largest number of devices that a driver may publish in a fault, mostParts the largest number of slices.
const mostDevices, mostParts = 128, 16

// Fault is a failure at a set time.
type Fault struct {
	// At is the time since the cloud was made. For is the fault's duration; 0 means for ever. The notices of a reclaim come within this
	// duration; for a reclaim, 0 means three minutes.
	At   metav1.Duration `json:"at"`
	What string          `json:"what"`
	For  metav1.Duration `json:"for,omitzero"`
	// Selector selects offerings, machines and calls; one without any field selects all.
	Selector Selector        `json:"selector,omitzero"`
	Share    float64         `json:"share,omitempty"`
	Factor   float64         `json:"factor,omitempty"`
	Lag      metav1.Duration `json:"lag,omitzero"`
	Count    int             `json:"count,omitempty"`
	Parts    int             `json:"parts,omitempty"` // 0 means 1
	// Resource is the full name of a resource. Driver is the name of a CSI driver or of a driver of devices. Taint and Label have kubectl's
	// notation: key=value:Effect and key=value. A missing one ends with a -: key:Effect-, key-.
	Resource string `json:"resource,omitempty"`
	Driver   string `json:"driver,omitempty"`
	Taint    string `json:"taint,omitempty"`
	Label    string `json:"label,omitempty"`
}

// Selector selects offerings and machines; every field that is set has to match.
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

// ReadFaults reads a list of faults in JSON; name is the file's name in errors.
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

// check returns an error that describes a mistake in a fault.
func (f Fault) check() error {
	calls := []string{"", "Describe", "Launch", "LaunchMachines", "Terminate", "TerminateMachines"}
	switch {
	case !slices.Contains(kinds, f.What):
		return fmt.Errorf("what: %q is none of %s", f.What, strings.Join(kinds, ", "))
	case f.At.Duration < 0 || f.For.Duration < 0 || f.Lag.Duration < 0:
		return fmt.Errorf("%s: at, for and lag cannot be negative", f.What)
	case f.What == FaultReclaim && (f.Share <= 0 || f.Share > 1):
		return fmt.Errorf("reclaim: share: %v is not above 0 and at most 1", f.Share)
	case f.Share < 0 || f.Share > 1:
		return fmt.Errorf("%s: share: %v is not from 0 to 1", f.What, f.Share)
	case (f.What == FaultThrottle || f.What == FaultPrice) && f.Factor < 0:
		return fmt.Errorf("%s: factor: %v is negative", f.What, f.Factor)
	case (f.What == FaultStale || f.What == FaultLateRegister) && f.Lag.Duration == 0:
		return fmt.Errorf("%s: lag: missing", f.What)
	case (f.What == FaultNeverRegister || f.What == FaultAttach) && f.Count <= 0:
		return fmt.Errorf("%s: count: %d is not above 0", f.What, f.Count)
	case !slices.Contains(calls, f.Selector.Call):
		return fmt.Errorf("%s: selector.call: %q is none of %s", f.What, f.Selector.Call, strings.Join(calls[1:], ", "))
	}
	return f.checkNode()
}

// checkNode returns an error that describes a mistake in a fault of nodes.
func (f Fault) checkNode() error {
	switch f.What {
	case FaultLess:
		known := []string{"cpu", "memory", "ephemeral-storage", "pods"}
		if !slices.Contains(known, f.Resource) && !strings.Contains(f.Resource, "/") && !strings.HasPrefix(f.Resource, corev1.ResourceHugePagesPrefix) {
			return fmt.Errorf("less: resource: %q is none of %s: write the full name, such as nvidia.com/gpu for a device", f.Resource, strings.Join(known, ", "))
		}
		if f.Factor < 0 || f.Factor >= 1 {
			return fmt.Errorf("less: factor: %v is not from 0 to below 1: say what share of the resource is there", f.Factor)
		}
	case FaultDevices:
		if !strings.Contains(f.Resource, "/") {
			return fmt.Errorf("devices: resource: %q is no device: write its full name, such as nvidia.com/gpu", f.Resource)
		}
		if f.Count < 0 || f.Factor < 0 || f.Count > 0 && f.Factor > 0 {
			return fmt.Errorf("devices: say count (so many) or factor (so many times what the catalog says), neither below 0: got %d and %v", f.Count, f.Factor)
		}
	case FaultSlices:
		if f.Count < 0 || f.Factor < 0 || f.Count > 0 && f.Factor > 0 || f.Count > mostDevices {
			return fmt.Errorf("slices: say count (so many devices, at most %d) or factor (so many times what is expected), neither below 0: got %d and %v", mostDevices, f.Count, f.Factor)
		}
		if f.Parts < 0 || f.Parts > mostParts {
			return fmt.Errorf("slices: parts: %d is not from 1 to %d", f.Parts, mostParts)
		}
	case FaultTaint:
		t, _ := taintOf(f.Taint)
		effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
		if !slices.Contains(effects, t.Effect) || !isKeyAndValue(t.Key, t.Value) {
			return fmt.Errorf("taint: taint: %q is no taint: write key=value:NoSchedule, or key:NoSchedule- for one that is missing", f.Taint)
		}
	case FaultLabel:
		key, value, gone := labelOf(f.Label)
		if gone == strings.Contains(f.Label, "=") || !isKeyAndValue(key, value) {
			return fmt.Errorf("label: label: %q is no label: write key=value, or key- for one that is missing", f.Label)
		}
	case FaultAttach:
		if f.Driver == "" {
			return errors.New("attach: driver: missing: say which CSI driver takes so few volumes")
		}
	}
	return nil
}

// isKeyAndValue reports whether a label or a taint may have this key and value.
func isKeyAndValue(key, value string) bool {
	return len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
}

// taintOf parses a taint; gone is true if the node lacks the taint.
func taintOf(text string) (t corev1.Taint, gone bool) {
	text, gone = strings.CutSuffix(text, "-")
	key, effect, _ := strings.Cut(text, ":")
	t.Key, t.Value, _ = strings.Cut(key, "=")
	t.Effect = corev1.TaintEffect(effect)
	return t, gone
}

// labelOf parses a label; gone is true if the node lacks the label.
func labelOf(text string) (key, value string, gone bool) {
	key, value, _ = strings.Cut(text, "=")
	if value == "" {
		key, gone = strings.CutSuffix(key, "-")
	}
	return key, value, gone
}

// Inject adds a fault at run time. Its At counts from now.
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

// runFaults carries out the faults that happen at an instant and are due.
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
		case FaultGone, FaultBare, FaultSecond:
			for _, r := range c.ordered() {
				if c.hits(f, r) && !r.gone(at) && !r.Registers.IsZero() && !r.Registers.After(at) {
					c.enter(r, f, at)
				}
			}
		}
	}
}

// of reports whether the fault selects a machine; hits reports whether the machine is also in the share that is drawn.
func (f Fault) of(r *Record) bool {
	return f.Selector.matches(r.Offering) && (f.Selector.Machine == "" || f.Selector.Machine == r.Machine.Claim)
}

func (c *Cloud) hits(f Fault, r *Record) bool {
	drawn := func() bool { return c.draws("hit", f.What, f.At.String(), string(r.Machine.ID)).uniform() < f.Share }
	return f.of(r) && (f.Share == 0 || drawn())
}

// hit reclaims or kills the machines that a fault selects.
func (c *Cloud) hit(f Fault, at time.Time, event string) {
	for _, r := range c.ordered() {
		if !f.of(r) {
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

// active lists the faults of a kind that are in effect at a time.
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
