package engine

import (
	"time"

	v1 "tenon.sh/api/v1"
)

// EarlierPasses is the state that passes of disruption leave for the next pass: their findings, so that the next pass need not look at all machines
// again, and the times at which conditions began. A pass does not change it but returns another one.
type EarlierPasses struct {
	// ScaledDown is the time since which pods have been leaving many nodes of a pool, by pool.
	ScaledDown map[string]time.Time `json:"scaledDown,omitempty"`
	// Look is the last look at all machines that could be consolidated; nil before the first.
	Look *ConsolidationLook `json:"look,omitempty"`
	// Comings holds the CronJobs for whose pods alone machines of a pool were started, by the names of pool and CronJob ("general CronJob
	// default/report").
	Comings map[string]Comings `json:"comings,omitempty"`
}

// Comings holds the times at which pods of a CronJob came to machines that were idle, or for which machines had to be started.
type Comings struct {
	// Times are the last few times, in order.
	Times []time.Time `json:"times,omitempty"`
	// Machines are the UIDs of the claims whose machines were started for the CronJob and are still there, in order.
	Machines []string `json:"machines,omitempty"`
	// Boot is the time that the quickest of these machines took to be ready, 0 if it is not known.
	Boot time.Duration `json:"boot,omitempty"`
	// Busy is true if pods of the CronJob run on these machines, or are expected there.
	Busy bool `json:"busy,omitempty"`
}

// ConsolidationLook holds the machines that consolidation has considered and kept: all machines once, and since then the machines that changed.
type ConsolidationLook struct {
	// At is the time at which all machines were considered.
	At time.Time `json:"at"`
	// Pools is a hash of the pools at that time.
	Pools string `json:"pools"`
	// Offers are the offerings that were sold at that time, LastOffers the offerings that the last pass saw. LastOffers has none that Offers lacks.
	Offers     []ClassOffers `json:"offers,omitempty"`
	LastOffers []ClassOffers `json:"lastOffers,omitempty"`
	// Machines holds the machines that need not be considered again while they stay the same, by node and claim.
	Machines map[string]LookedMachine `json:"machines,omitempty"`
	// Wasteful names the machines whose removal could save most.
	Wasteful []string `json:"wasteful,omitempty"`
	// Worth is the value of a unit of each resource for the pods that are there, in USD per hour. Market is the value if many such pods filled whole
	// machines.
	Worth  map[string]float64 `json:"worth,omitempty"`
	Market map[string]float64 `json:"market,omitempty"`
	// CutShort is true if a small cluster had more machines that could not go than one pass tries.
	CutShort bool `json:"cutShort,omitempty"`
}

// LookedMachine is the finding about one machine.
type LookedMachine struct {
	// Pods is a hash of the machine's pods, and Count is their number.
	Pods  uint64 `json:"pods,string"`
	Count int    `json:"count"`
	// Why is the reason for which the machine stays.
	Why Reason `json:"why"`
	// Later is true if the machine was considered again after ConsolidationLook.At.
	Later bool `json:"later,omitempty"`
	// Failed is the time at which the machine was chosen and then could not be removed.
	Failed time.Time `json:"failed,omitzero"`
}

// ClassOffers is a digest of the offerings of a class, short enough to be remembered.
type ClassOffers struct {
	Ref v1.NodeClassReference `json:"ref"`
	// Usable is false if no machine can be started with the class.
	Usable bool `json:"usable"`
	// Types is a hash of the instance types with their offerings and prices, sold out or not.
	Types string `json:"types"`
	// SoldOut holds the numbers of the offerings without capacity, counted over all types.
	SoldOut []int `json:"soldOut,omitempty"`
	// Slots holds the free slots of the offerings of reservations, in the order of the offerings.
	Slots []int `json:"slots,omitempty"`
}
