package overlay

import (
	"fmt"
	"strings"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
)

// interruptions holds an overlay's figures about interruptions of machines by the cloud: the number of interruptions of a machine per hour, and
// the cost of each in USD. A figure is nil if the overlay does not give it.
type interruptions struct{ perHour, cost *float64 }

const (
	// monthHours is the length, in hours, of the month to which percentages of interrupted machines refer.
	monthHours = 730
	// mostInterruptions is the largest number of interruptions of a machine per hour.
	mostInterruptions = 60
	// mostInterruptionCost is the largest cost of an interruption, in USD.
	mostInterruptionCost = 1e4
)

// interruptionsOf reads the overlay's annotations, and lists their faults.
func interruptionsOf(o *v1alpha1.NodeOverlay) (out interruptions, faults []string) {
	read := func(key string, of func(text string) (float64, error)) *float64 {
		text, said := o.Annotations[key]
		if !said {
			return nil
		}
		n, err := of(strings.TrimSpace(text))
		if err != nil {
			faults = append(faults, fmt.Sprintf("annotation %s is %q: %v", key, text, err))
			return nil
		}
		return &n
	}
	out.cost = read(v1.InterruptionCostAnnotationKey, func(text string) (float64, error) {
		if !isDecimal(text) {
			return 0, fmt.Errorf("write an amount in USD without a sign, such as 1.50")
		}
		return within(text, mostInterruptionCost)
	})
	out.perHour = read(v1.InterruptionRateAnnotationKey, func(text string) (float64, error) {
		number, percent := strings.CutSuffix(text, "%")
		if !isDecimal(number) {
			return 0, fmt.Errorf("write how many of the machines are interrupted in a month, such as 5%%, or how often one is in an hour, such as 0.0001")
		}
		if percent {
			n, err := within(number, 100*monthHours*mostInterruptions)
			return n / 100 / monthHours, err
		}
		return within(number, mostInterruptions)
	})
	return out, faults
}

func (r interruptions) said() bool { return r.perHour != nil || r.cost != nil }

// words returns the figures as text.
func (r interruptions) words() string {
	var parts []string
	if r.perHour != nil {
		parts = append(parts, fmt.Sprintf("that there are %.3g per machine and hour", *r.perHour))
	}
	if r.cost != nil {
		parts = append(parts, fmt.Sprintf("that each costs %g USD", *r.cost))
	}
	return strings.Join(parts, " and ")
}

// risk holds the overlays that set the rate and the cost of interruptions of an offering's machines; nil for none.
type risk struct{ rate, cost *plan }

// loss returns the expected cost of interruptions, in USD per hour. It is 0 unless both the rate and the cost are set.
func (r risk) loss() float64 {
	if r.rate == nil || r.cost == nil {
		return 0
	}
	return *r.rate.risk.perHour * *r.cost.risk.cost
}

// clashOf returns an overlay of the same weight that sets the same figure of the offering as p, and describes the figure. It returns nil if there
// is none.
func (r risk) clashOf(p *plan) (other *plan, what string) {
	switch {
	case p.risk.perHour != nil && r.rate != nil && r.rate.weight == p.weight:
		return r.rate, "how often machines are interrupted"
	case p.risk.cost != nil && r.cost != nil && r.cost.weight == p.weight:
		return r.cost, "what an interruption costs"
	}
	return nil, ""
}

// layRisk sets the overlay's figures for interruptions of the spot machines that it selects, unless a heavier overlay has set them.
func (v *view) layRisk(p *plan, m match) {
	kind := &v.sold.types[m.kind]
	for i := range m.each(len(kind.Offerings)) {
		if kind.Offerings[i].CapacityType != v1.CapacityTypeSpot {
			continue
		}
		if v.risks[m.kind] == nil {
			v.risks[m.kind] = make([]risk, len(kind.Offerings))
		}
		r := &v.risks[m.kind][i]
		before := *r
		if r.rate == nil && p.risk.perHour != nil {
			r.rate = p
		}
		if r.cost == nil && p.risk.cost != nil {
			r.cost = p
		}
		if *r != before {
			p.found.risks += len(v.pools)
		}
	}
}

// SameInterruptions reports whether the two lists of annotations contain the same figures for interruptions.
func SameInterruptions(a, b map[string]string) bool {
	for _, key := range []string{v1.InterruptionRateAnnotationKey, v1.InterruptionCostAnnotationKey} {
		x, there := a[key]
		if y, also := b[key]; x != y || there != also {
			return false
		}
	}
	return true
}
