package device

import (
	"math"
	"slices"
)

// A Capacity is an amount of a resource in a device.
type Capacity struct {
	Amount int64
	// Policy bounds the requested amounts. Without one any amount is allowed, and a claim without a request gets all.
	Policy *Policy
}

// A Policy defines the amounts that claims may request of a capacity.
type Policy struct {
	// Default is the amount for a claim without a request. Without a Default it gets all.
	Default *int64
	// Values, in ascending order, are the only possible amounts. Requests are rounded up to one of them.
	Values []int64
	// Range allows the amounts from a least one, in steps, to a largest one. Requests are rounded up to one of them.
	Range *Range
}

// A Range holds the bounds and the step of a policy.
type Range struct {
	Min, Max, Step *int64
}

// unit is one of Kubernetes' units: steps are whole units.
const unit = 1000

// consumes returns the amount of each capacity that a claim takes of a device with this shape, and whether the claim may take them.
func (s *Shape) consumes(asked map[string]int64) (map[string]int64, bool) {
	for name := range asked {
		if _, ok := s.Capacities[name]; !ok {
			return nil, false
		}
	}
	taken := make(map[string]int64, len(s.Capacities))
	for name, c := range s.Capacities {
		amount, explicit := asked[name]
		if c.Policy == nil {
			if !explicit {
				amount = c.Amount
			}
			taken[name] = amount
			continue
		}
		if explicit {
			amount = c.Policy.round(amount)
		} else {
			amount = c.Policy.unasked(c.Amount)
		}
		if !c.Policy.allows(amount) {
			return nil, false
		}
		taken[name] = amount
	}
	return taken, true
}

// unasked returns the amount of a claim without a request.
func (p *Policy) unasked(all int64) int64 {
	if p.Default != nil {
		return *p.Default
	}
	return all
}

// round returns the amount taken for a requested amount.
func (p *Policy) round(amount int64) int64 {
	if p.Range != nil {
		return p.Range.round(amount)
	}
	for _, v := range p.Values {
		if amount <= v {
			return v
		}
	}
	return amount
}

// allows reports whether a claim may take the amount. A claim may always take the default.
func (p *Policy) allows(amount int64) bool {
	switch {
	case p.Default != nil && *p.Default == amount:
		return true
	case p.Range != nil:
		return p.Range.allows(amount)
	case len(p.Values) > 0:
		return slices.Contains(p.Values, amount)
	}
	return true
}

func (r *Range) round(amount int64) int64 {
	if r.Min == nil {
		return amount
	}
	if amount < *r.Min {
		return *r.Min
	}
	step := r.step()
	if step == 0 {
		return amount
	}
	least := whole(*r.Min)
	n := (whole(amount) - least + step - 1) / step
	if n > (math.MaxInt64/unit-least)/step {
		return math.MaxInt64
	}
	return (least + n*step) * unit
}

// allows does not check the least amount, because round has raised the amount, and a default may be lower.
func (r *Range) allows(amount int64) bool {
	if r.Max != nil && amount > *r.Max {
		return false
	}
	least := int64(0)
	if r.Min != nil {
		least = whole(*r.Min)
	}
	step := r.step()
	return step == 0 || (whole(amount)-least)%step == 0
}

// step returns the step in whole units; 0 means none.
func (r *Range) step() int64 {
	if r.Step == nil {
		return 0
	}
	return max(0, whole(*r.Step))
}

// whole returns the amount in units, rounded up.
func whole(amount int64) int64 {
	n := amount / unit
	if amount%unit > 0 {
		n++
	}
	return n
}

// plus adds without overflow.
func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	if b < 0 && a < math.MinInt64-b {
		return math.MinInt64
	}
	return a + b
}
