package engine

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
)

// Commitment is money that is paid for machines on demand whether they run or not: reserved instances, or a Savings Plan. Either
// Machines or AmountPerHour is set.
type Commitment struct {
	Name string `json:"name"`
	// Requirements select the machines that it covers by what instance types and offerings say of them, as those of a NodeOverlay do;
	// none means all. Whatever they say, only machines on demand are covered.
	Requirements []v1alpha1.Requirement `json:"requirements,omitempty"`
	// Machines is how many machines it covers at a time, PricePerHour what is paid for each of them, in USD.
	Machines     int     `json:"machines,omitempty"`
	PricePerHour float64 `json:"pricePerHour,omitempty"`
	// AmountPerHour is USD per hour of which machines are paid at the price of Prices, by instance type, and where that does not name
	// theirs at what they cost less Discount, a share of it.
	AmountPerHour float64            `json:"amountPerHour,omitempty"`
	Discount      float64            `json:"discount,omitempty"`
	Prices        map[string]float64 `json:"prices,omitempty"`
	// UsedElsewhere is how much of it others use, machines of other clusters for example: a number of machines, or USD per hour.
	UsedElsewhere float64 `json:"usedElsewhere,omitempty"`
	// End is when it ends; zero for never.
	End time.Time `json:"end,omitzero"`
}

// CoveredPart is what a machine counts for of its price where a commitment pays for it: next to nothing beside what is paid anyway. Of
// two such machines the smaller is still the cheaper one. Machines in capacity reservations cost as little.
const CoveredPart = 1e-7

// mostCommitted is beyond what anybody commits to: machines, and USD per hour.
const mostCommitted = 1_000_000

// MostCommitments is how many there may be.
const MostCommitments = 200

// CommitmentUse is what becomes of a commitment, in USD per hour.
type CommitmentUse struct {
	Name string `json:"name"`
	// CommittedPerHour is paid in any case. Of it, machines of this cluster use UsedPerHour, launches of the plan LaunchesPerHour, and others
	// ElsewherePerHour; IdlePerHour is paid for nothing.
	CommittedPerHour float64 `json:"committedPerHour"`
	UsedPerHour      float64 `json:"usedPerHour"`
	LaunchesPerHour  float64 `json:"launchesPerHour,omitempty"`
	ElsewherePerHour float64 `json:"elsewherePerHour,omitempty"`
	IdlePerHour      float64 `json:"idlePerHour"`
	// InsteadPerHour is what the machines that use it, and the launches, would cost without it.
	InsteadPerHour float64 `json:"insteadPerHour"`
	// Machines counts those of this cluster that it pays for, in whole or in part, and the launches.
	Machines int `json:"machines"`
	// Problem says why it can be of no use; empty if it may be.
	Problem string `json:"problem,omitempty"`
}

// HasEnded reports whether the commitment is nothing any more.
func (c *Commitment) HasEnded(now time.Time) bool { return !c.End.IsZero() && !now.Before(c.End) }

// Here is how much of it there is for this cluster: machines, or USD per hour.
func (c *Commitment) Here() float64 {
	return max(0, max(float64(c.Machines), c.AmountPerHour)-c.UsedElsewhere)
}

// Takes is how much of the commitment a machine of the type takes that costs so much without it: one machine, or USD per hour. Ok is
// false for a machine that costs more with it than without.
func (c *Commitment) Takes(instanceType string, usd float64) (units float64, ok bool) {
	if !(usd > 0) {
		return 0, false
	}
	if c.Machines > 0 {
		return 1, true
	}
	units, known := c.Prices[instanceType]
	if !known {
		units = usd * (1 - c.Discount)
	}
	return units, units > 0 && units <= usd
}

// UnitPrice is what a unit of it costs, in USD per hour.
func (c *Commitment) UnitPrice() float64 {
	if c.Machines > 0 {
		return c.PricePerHour
	}
	return 1
}

// CheckCommitments says what is wrong with the list, naming the commitment; nil if nothing is. That one has ended is nothing wrong.
func CheckCommitments(list []Commitment) error {
	if len(list) > MostCommitments {
		return fmt.Errorf("there are %d commitments: join those that cover the same machines, there may be %d", len(list), MostCommitments)
	}
	seen := map[string]bool{}
	for i := range list {
		c := &list[i]
		if c.Name == "" || len(c.Name) > 63 {
			return fmt.Errorf("commitment %d: name is %q: give it one of at most 63 characters", i+1, c.Name)
		}
		if seen[c.Name] {
			return fmt.Errorf("commitment %s: there are two of this name: rename or join them", c.Name)
		}
		seen[c.Name] = true
		if problem := c.problem(); problem != "" {
			return fmt.Errorf("commitment %s: %s", c.Name, problem)
		}
	}
	return nil
}

func (c *Commitment) problem() string {
	within := func(usd, least, most float64) bool { return usd >= least && usd <= most } // not so NaN
	reserved := c.Machines != 0 || c.PricePerHour != 0
	switch {
	case reserved && (c.AmountPerHour != 0 || c.Discount != 0 || len(c.Prices) > 0):
		return "set machines with pricePerHour, or amountPerHour with discount or prices: not both"
	case c.Machines == 0 && c.AmountPerHour == 0:
		return "set machines (reserved instances) or amountPerHour (a Savings Plan)"
	case c.Machines < 0 || c.Machines > mostCommitted:
		return fmt.Sprintf("machines is %d: it must be from 1 to %d", c.Machines, mostCommitted)
	case !within(c.PricePerHour, 0, mostCommitted):
		return fmt.Sprintf("pricePerHour is %v: it must be USD per hour and machine, from 0 to %d", c.PricePerHour, mostCommitted)
	case !within(c.AmountPerHour, 0, mostCommitted):
		return fmt.Sprintf("amountPerHour is %v: it must be USD per hour, from 0 to %d", c.AmountPerHour, mostCommitted)
	case !within(c.Discount, 0, 0.99):
		return fmt.Sprintf("discount is %v: it must be a share of the price, from 0 to 0.99", c.Discount)
	case !within(c.UsedElsewhere, 0, max(float64(c.Machines), c.AmountPerHour)):
		return fmt.Sprintf("usedElsewhere is %v: it must be from 0 to the %v of the commitment", c.UsedElsewhere, max(float64(c.Machines), c.AmountPerHour))
	case c.Machines > 0 && c.UsedElsewhere != math.Trunc(c.UsedElsewhere):
		return fmt.Sprintf("usedElsewhere is %v: it must be a whole number of machines", c.UsedElsewhere)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Prices)) {
		if usd := c.Prices[name]; !within(usd, 1e-6, mostCommitted) {
			return fmt.Sprintf("prices[%s] is %v: it must be USD per hour, from 0.000001 to %d", name, usd, mostCommitted)
		}
	}
	for _, r := range c.Requirements {
		if problem := requirementProblem(r); problem != "" {
			return fmt.Sprintf("requirement of %q: %s", r.Key, problem)
		}
	}
	return ""
}

func requirementProblem(r v1alpha1.Requirement) string {
	switch {
	case r.Key == "" || strings.ContainsAny(r.Key, " \t\n"):
		return "it must be the key of a label"
	case v1.NormalizeLabel(r.Key) == v1.CapacityTypeLabelKey:
		return "only machines on demand are covered: leave it out"
	case v1.NormalizeLabel(r.Key) == v1.NodePoolLabelKey:
		return "a bill knows no pools: what is committed is shared by all"
	}
	switch r.Operator {
	case v1.In, v1.NotIn:
		if len(r.Values) == 0 {
			return fmt.Sprintf("operator %s needs at least one value", r.Operator)
		}
	case v1.Exists, v1.DoesNotExist:
		if len(r.Values) > 0 {
			return fmt.Sprintf("operator %s takes no values", r.Operator)
		}
	default:
		return fmt.Sprintf("operator is %q: it must be In, NotIn, Exists or DoesNotExist", r.Operator)
	}
	return ""
}
