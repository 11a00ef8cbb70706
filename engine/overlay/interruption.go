package overlay

import (
	"fmt"
	"strings"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
)

// interruptions is what an overlay says of machines that the cloud takes away: how often that happens to one an hour, and what it costs
// in USD each time; nil for what it does not say.
type interruptions struct{ perHour, cost *float64 }

const (
	// monthHours is how long the month is in which percentages of machines are counted.
	monthHours = 730
	// mostInterruptions bounds how often a machine is interrupted an hour.
	mostInterruptions = 60
	// mostInterruptionCost bounds what that costs, in USD.
	mostInterruptionCost = 1e4
)

// interruptionsOf reads the overlay's annotations, and what is wrong with them.
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

// words says what is said.
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

// risk is which overlays say how often machines of an offering are interrupted, and what that costs; nil for none.
type risk struct{ rate, cost *plan }

// loss is what interruptions are expected to cost, in USD per hour: nothing as long as nobody says both.
func (r risk) loss() float64 {
	if r.rate == nil || r.cost == nil {
		return 0
	}
	return *r.rate.risk.perHour * *r.cost.risk.cost
}

// clashOf is another overlay of its weight that says the same of the offering as this one, and what that is; nil for none.
func (r risk) clashOf(p *plan) (other *plan, what string) {
	switch {
	case p.risk.perHour != nil && r.rate != nil && r.rate.weight == p.weight:
		return r.rate, "how often machines are interrupted"
	case p.risk.cost != nil && r.cost != nil && r.cost.weight == p.weight:
		return r.cost, "what an interruption costs"
	}
	return nil, ""
}

// layRisk notes what the overlay says of interruptions of the spot machines that it selects, where no heavier one says it.
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

// SameInterruptions reports whether two overlays with these annotations say the same of interruptions.
func SameInterruptions(a, b map[string]string) bool {
	for _, key := range []string{v1.InterruptionRateAnnotationKey, v1.InterruptionCostAnnotationKey} {
		x, there := a[key]
		if y, also := b[key]; x != y || there != also {
			return false
		}
	}
	return true
}
