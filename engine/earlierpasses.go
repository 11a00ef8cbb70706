package engine

import (
	"time"

	v1 "tenon.sh/api/v1"
)

// EarlierPasses is what passes of disruption have left for the next one: what they have found, so that it need not look at
// everything again, and since when something lasts. Nobody changes it: a pass leaves another one.
type EarlierPasses struct {
	// ScaledDown is since when pods have been seen to leave many nodes of a pool, by pool.
	ScaledDown map[string]time.Time `json:"scaledDown,omitempty"`
	// Look is the last look at all machines that could be consolidated; nil before the first.
	Look *ConsolidationLook `json:"look,omitempty"`
	// Comings are those of CronJobs for whose pods alone machines of a pool were started, by the names of both ("general CronJob
	// default/report").
	Comings map[string]Comings `json:"comings,omitempty"`
}

// Comings are when pods of a CronJob came to machines that were idle, or had to be started for them.
type Comings struct {
	// Times are the last few of them, in order.
	Times []time.Time `json:"times,omitempty"`
	// Machines are the UIDs of the claims of machines that were started for it and are still there, in order.
	Machines []string `json:"machines,omitempty"`
	// Boot is how long the quickest of its machines took to be ready, 0 if that is not known.
	Boot time.Duration `json:"boot,omitempty"`
	// Busy is true if pods of it are on them, or expected there.
	Busy bool `json:"busy,omitempty"`
}

// ConsolidationLook is what consolidation has looked at for nothing: all machines once, and since then those that changed.
type ConsolidationLook struct {
	// At is when it was that all machines were looked at.
	At time.Time `json:"at"`
	// Pools is a hash of the pools as they were then.
	Pools string `json:"pools"`
	// Offers is what was sold then, LastOffers what the last pass saw: no more than then.
	Offers     []ClassOffers `json:"offers,omitempty"`
	LastOffers []ClassOffers `json:"lastOffers,omitempty"`
	// Machines are those that are not worth another look as long as they stay the same, by node and claim.
	Machines map[string]LookedMachine `json:"machines,omitempty"`
	// Wasteful names those that have most to gain.
	Wasteful []string `json:"wasteful,omitempty"`
	// Worth is what a unit of each resource is worth for the pods that are there, in USD per hour; Market is the same where many such pods use up
	// whole machines.
	Worth  map[string]float64 `json:"worth,omitempty"`
	Market map[string]float64 `json:"market,omitempty"`
	// CutShort is true if a small cluster had more machines that could not go than one pass tries.
	CutShort bool `json:"cutShort,omitempty"`
}

// LookedMachine is what was found of one machine.
type LookedMachine struct {
	// Pods is a hash of the pods that it had, Count how many they were.
	Pods  uint64 `json:"pods,string"`
	Count int    `json:"count"`
	// Why is why it stays.
	Why Reason `json:"why"`
	// Later is true if a later pass than the look at all machines has looked at it.
	Later bool `json:"later,omitempty"`
	// Failed is when it had been found and turned out not to be able to go.
	Failed time.Time `json:"failed,omitzero"`
}

// ClassOffers is what a class sells, short enough to be remembered.
type ClassOffers struct {
	Ref v1.NodeClassReference `json:"ref"`
	// Usable is false if no machine can be started with the class.
	Usable bool `json:"usable"`
	// Types is a hash of the instance types with their offerings and prices, sold out or not.
	Types string `json:"types"`
	// SoldOut are the numbers of the offerings without capacity, counted over all types.
	SoldOut []int `json:"soldOut,omitempty"`
	// Slots is what the offerings of reservations have left, in their order.
	Slots []int `json:"slots,omitempty"`
}
