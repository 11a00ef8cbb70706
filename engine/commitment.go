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

// Commitment is money that is paid for on-demand machines whether they run or not: reserved instances, or a Savings Plan. Either Machines or
// AmountPerHour is set.
type Commitment struct {
	Name string `json:"name"`
	// Requirements select the machines that the commitment covers, by the labels of instance types and offerings, as the requirements of a NodeOverlay
	// do. If there are none, all machines are covered. Only on-demand machines are covered in any case.
	Requirements []v1alpha1.Requirement `json:"requirements,omitempty"`
	// Machines is the number of machines that the commitment covers at a time, and PricePerHour is the price of each, in USD.
	Machines     int     `json:"machines,omitempty"`
	PricePerHour float64 `json:"pricePerHour,omitempty"`
	// AmountPerHour is an amount in USD per hour from which machines are paid. A machine is paid at the price in Prices, by instance type. If Prices
	// does not name the type, the machine is paid at its usual price less Discount, a share of that price.
	AmountPerHour float64            `json:"amountPerHour,omitempty"`
	Discount      float64            `json:"discount,omitempty"`
	Prices        map[string]float64 `json:"prices,omitempty"`
	// UsedElsewhere is the part that is used outside the cluster, by machines of other clusters for example: a number of machines, or USD per hour.
	UsedElsewhere float64 `json:"usedElsewhere,omitempty"`
	// End is the time at which the commitment ends; zero if it does not end.
	End time.Time `json:"end,omitzero"`
}

// CoveredPart is the share of its price that a machine costs if a commitment pays for it: next to nothing, because the commitment is paid anyway. The
// smaller of two such machines is still the cheaper one. Machines in capacity reservations cost the same share.
const CoveredPart = 1e-7

// mostCommitted is more than anybody commits to, in machines and in USD per hour.
const mostCommitted = 1_000_000

// MostCommitments is the largest number of commitments.
const MostCommitments = 200

// CommitmentUse says how much of a commitment is used, in USD per hour.
type CommitmentUse struct {
	Name string `json:"name"`
	// CommittedPerHour is paid in any case. Machines of this cluster use UsedPerHour of it, launches of the plan use LaunchesPerHour, and other clusters
	// use ElsewherePerHour. IdlePerHour is not used.
	CommittedPerHour float64 `json:"committedPerHour"`
	UsedPerHour      float64 `json:"usedPerHour"`
	LaunchesPerHour  float64 `json:"launchesPerHour,omitempty"`
	ElsewherePerHour float64 `json:"elsewherePerHour,omitempty"`
	IdlePerHour      float64 `json:"idlePerHour"`
	// InsteadPerHour is the price, without the commitment, of the machines and launches that use it.
	InsteadPerHour float64 `json:"insteadPerHour"`
	// Machines counts the machines of this cluster and the launches for which the commitment pays in whole or in part.
	Machines int `json:"machines"`
	// Problem says why the commitment cannot be used; empty if it can be.
	Problem string `json:"problem,omitempty"`
}

// HasEnded reports whether the commitment has ended.
func (c *Commitment) HasEnded(now time.Time) bool { return !c.End.IsZero() && !now.Before(c.End) }

// Here returns the part of the commitment that this cluster can use: machines, or USD per hour.
func (c *Commitment) Here() float64 {
	return max(0, max(float64(c.Machines), c.AmountPerHour)-c.UsedElsewhere)
}

// Takes returns the part of the commitment that a machine of the type uses: one machine, or USD per hour. Usd is the machine's price without the
// commitment. Ok is false if the machine costs more with the commitment than without.
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

// UnitPrice returns the price of one unit of the commitment, in USD per hour.
func (c *Commitment) UnitPrice() float64 {
	if c.Machines > 0 {
		return c.PricePerHour
	}
	return 1
}

// CheckCommitments returns an error that names the first faulty commitment. A commitment that has ended is not faulty.
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
