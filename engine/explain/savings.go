package explain

import (
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
)

// Savings compares the cost of the pools' machines with the cost of a plan for the same pods, as if all could move at once. Prices are in USD
// per hour.
type Savings struct {
	Pools          []PoolSavings `json:"pools"`
	NowPerHour     float64       `json:"nowPerHour"`
	PlannedPerHour float64       `json:"plannedPerHour"`
	// Causes splits the difference of NowPerHour and PlannedPerHour.
	Causes []SavingCause `json:"causes"`
	// BoundPerHour is a lower bound on the cost of every plan, null if unknown.
	BoundPerHour *float64 `json:"boundPerHour"`
	// Commitments is the use of each commitment now, PlannedCommitments its use in the plan. The costs on both sides of the comparison leave out
	// the amounts that commitments pay.
	Commitments        []engine.CommitmentUse `json:"commitments,omitempty"`
	PlannedCommitments []engine.CommitmentUse `json:"plannedCommitments,omitempty"`
	// Pods counts the pods that run on the compared nodes, or fit there; OnStaying counts those that the plan puts on nodes that it keeps.
	Pods      int `json:"pods"`
	OnStaying int `json:"onStaying"`
	// Pending counts pods that wait for more machines, and Starting machines without a node: both are on neither side.
	Pending         int     `json:"pending"`
	Starting        int     `json:"starting"`
	StartingPerHour float64 `json:"startingPerHour"`
	// Unpriced names nodes without a price in any catalog, Outside counts nodes of no pool. These nodes stay unchanged and take no more pods,
	// and neither side counts them.
	Unpriced []string `json:"unpriced"`
	Outside  int      `json:"outside"`
	// OutsidePerHour is the cost of the nodes outside pools, as far as prices are known.
	OutsidePerHour float64 `json:"outsidePerHour"`
	// Staying are nodes that the plan keeps, because nothing else can run some of their pods.
	Staying []StayingRecord `json:"staying"`
	Planned []MachineCount  `json:"planned"`
	// NotSold are compared nodes whose offerings their pool would not buy now. The plan can be dearer than now only because of them.
	NotSold []NotSoldRecord `json:"notSold,omitempty"`
	// Changes are the disruptions of the current plan, Idle the nodes by unused money, Kept the reasons why nodes are not removed now.
	Changes []DisruptionRecord `json:"changes"`
	Idle    []IdleRecord       `json:"idle"`
	Kept    []KeptRecord       `json:"kept"`
}

// PoolSavings is the share of one pool.
type PoolSavings struct {
	NodePool       string  `json:"nodePool"`
	Nodes          int     `json:"nodes"`
	NowPerHour     float64 `json:"nowPerHour"`
	PlannedNodes   int     `json:"plannedNodes"`
	PlannedPerHour float64 `json:"plannedPerHour"`
}

// MachineCount is a number of equal machines.
type MachineCount struct {
	NodePool     string  `json:"nodePool"`
	InstanceType string  `json:"instanceType"`
	CapacityType string  `json:"capacityType"`
	Count        int     `json:"count"`
	PricePerHour float64 `json:"pricePerHour"`
}

// StayingRecord is a node that the plan needs, with the first pod that nothing else can run.
type StayingRecord struct {
	Node    string                `json:"node"`
	Pod     string                `json:"pod"`
	Reasons []engine.ReasonRecord `json:"reasons"`
}

// NotSoldRecord counts the nodes of a pool whose offering the pool would not buy now, for one cause.
type NotSoldRecord struct {
	NodePool     string       `json:"nodePool"`
	Cause        NotSoldCause `json:"cause"`
	CapacityType string       `json:"capacityType"`
	Nodes        int          `json:"nodes"`
	PricePerHour float64      `json:"pricePerHour"`
	// Example is the offering of one of the nodes.
	Example string `json:"example"`
}

// NotSoldCause says why a pool would not buy an offering.
type NotSoldCause string

const (
	CapacityTypeNotAllowed NotSoldCause = "CapacityTypeNotAllowed" // the pool does not allow the capacity type
	OfferingNotAllowed     NotSoldCause = "OfferingNotAllowed"     // the pool allows the capacity type, but not the instance type or the zone
	OfferingSoldOut        NotSoldCause = "OfferingSoldOut"        // the pool allows the offering, but it is sold out
)

// IdleRecord is a node with the unused part of its price.
type IdleRecord struct {
	Node         string  `json:"node"`
	NodePool     string  `json:"nodePool"`
	InstanceType string  `json:"instanceType"`
	PricePerHour float64 `json:"pricePerHour"`
	// Used is the largest share of any resource that its pods ask for; IdlePerHour is the rest of the price.
	Used        float64 `json:"used"`
	IdlePerHour float64 `json:"idlePerHour"`
}

// KeptRecord counts the nodes that stay for reasons with the same code and pool, with one example.
type KeptRecord struct {
	Code     engine.Code `json:"code"`
	NodePool string      `json:"nodePool,omitempty"`
	Nodes    int         `json:"nodes"`
	Example  string      `json:"example"`
	Message  string      `json:"message"`
}

// NewSavings makes the comparison and changes nothing. Its plan is not meant to be carried out at once: the plan shows the distance of the bill
// from a better one.
func NewSavings(s *engine.Snapshot, opt engine.Options) *Savings {
	plan := newSavingsPlan(s, opt)
	plan.setIdle()
	plan.setCauses(plan.planned)
	plan.setLeftOut()
	plan.setNotSold()
	whole := *s
	whole.EarlierPasses = nil
	plan.setChanges(disruption.Plan(&whole, opt, nil))
	return plan.out
}

// NewBills returns the comparison without causes, changes, idle nodes and reasons of kept nodes.
func NewBills(s *engine.Snapshot, opt engine.Options) *Savings { return newSavingsPlan(s, opt).out }

func newSavingsPlan(s *engine.Snapshot, opt engine.Options) *savingsPlan {
	plan := &savingsPlan{s: s, opt: opt, price: map[string]float64{}, full: map[string]float64{}, staying: map[string]bool{}}
	plan.out = &Savings{Pools: []PoolSavings{}, Unpriced: []string{}, Staying: []StayingRecord{}, Planned: []MachineCount{},
		Causes: []SavingCause{}, Changes: []DisruptionRecord{}, Idle: []IdleRecord{}, Kept: []KeptRecord{}}
	plan.priceNodes()
	plan.expectPods()
	plan.planned = plan.plan()
	plan.setPlanned(plan.planned)
	return plan
}
