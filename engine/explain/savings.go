package explain

import (
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
)

// Savings compares what the machines of the pools cost with what a plan for the very same pods would cost, were they all
// free to move at once. Prices are in USD per hour.
type Savings struct {
	Pools          []PoolSavings `json:"pools"`
	NowPerHour     float64       `json:"nowPerHour"`
	PlannedPerHour float64       `json:"plannedPerHour"`
	// Causes split NowPerHour less PlannedPerHour.
	Causes []SavingCause `json:"causes"`
	// BoundPerHour is what no plan can cost less than, null if it is not known.
	BoundPerHour *float64 `json:"boundPerHour"`
	// Commitments says what becomes of each commitment now, PlannedCommitments in the plan. Both sides of the comparison are what machines
	// cost beside them.
	Commitments        []engine.CommitmentUse `json:"commitments,omitempty"`
	PlannedCommitments []engine.CommitmentUse `json:"plannedCommitments,omitempty"`
	// Pods counts those that run on the compared nodes, or fit there; OnStaying those of them that the plan puts on nodes that
	// it keeps.
	Pods      int `json:"pods"`
	OnStaying int `json:"onStaying"`
	// Pending counts pods that wait for more machines, and Starting machines without a node: neither side counts them.
	Pending         int     `json:"pending"`
	Starting        int     `json:"starting"`
	StartingPerHour float64 `json:"startingPerHour"`
	// Unpriced names nodes whose price no catalog tells, Outside counts nodes that belong to no pool: both stay as they are,
	// take no more pods, and neither side counts them.
	Unpriced []string `json:"unpriced"`
	Outside  int      `json:"outside"`
	// OutsidePerHour is what the nodes outside pools cost, as far as that is known.
	OutsidePerHour float64 `json:"outsidePerHour"`
	// Staying are nodes that the plan keeps, because nothing else can run some pod of theirs.
	Staying []StayingRecord `json:"staying"`
	Planned []MachineCount  `json:"planned"`
	// NotSold are compared nodes of offerings that their pool would not buy now: without these the plan could not be dearer.
	NotSold []NotSoldRecord `json:"notSold,omitempty"`
	// Changes is what would be removed first, Idle the nodes with the most unused money, Kept why nodes are not removed now.
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

// MachineCount is so many machines alike.
type MachineCount struct {
	NodePool     string  `json:"nodePool"`
	InstanceType string  `json:"instanceType"`
	CapacityType string  `json:"capacityType"`
	Count        int     `json:"count"`
	PricePerHour float64 `json:"pricePerHour"`
}

// StayingRecord is a node that the plan cannot do without, and the first pod that says so.
type StayingRecord struct {
	Node    string                `json:"node"`
	Pod     string                `json:"pod"`
	Reasons []engine.ReasonRecord `json:"reasons"`
}

// NotSoldRecord is a number of nodes of a pool whose offering it would not buy now, for one cause.
type NotSoldRecord struct {
	NodePool     string       `json:"nodePool"`
	Cause        NotSoldCause `json:"cause"`
	CapacityType string       `json:"capacityType"`
	Nodes        int          `json:"nodes"`
	PricePerHour float64      `json:"pricePerHour"`
	// Example is the offering of one of them.
	Example string `json:"example"`
}

// NotSoldCause says why a pool would not buy an offering.
type NotSoldCause string

const (
	CapacityTypeNotAllowed NotSoldCause = "CapacityTypeNotAllowed" // the pool allows nothing of the capacity type
	OfferingNotAllowed     NotSoldCause = "OfferingNotAllowed"     // the pool allows the capacity type, not the instance type or the zone
	OfferingSoldOut        NotSoldCause = "OfferingSoldOut"        // the pool allows the offering, and it is sold out
)

// IdleRecord is a node with what is paid for nothing.
type IdleRecord struct {
	Node         string  `json:"node"`
	NodePool     string  `json:"nodePool"`
	InstanceType string  `json:"instanceType"`
	PricePerHour float64 `json:"pricePerHour"`
	// Used is the largest share of any resource that its pods ask for; IdlePerHour is the rest of the price.
	Used        float64 `json:"used"`
	IdlePerHour float64 `json:"idlePerHour"`
}

// KeptRecord is a number of nodes that stay for reasons of one kind, with one of them.
type KeptRecord struct {
	Code     engine.Code `json:"code"`
	NodePool string      `json:"nodePool,omitempty"`
	Nodes    int         `json:"nodes"`
	Example  string      `json:"example"`
	Message  string      `json:"message"`
}

// NewSavings makes the comparison. It changes nothing, and neither does the plan in it: nobody would move everything at
// once, but it says how far the bill is from what it could be.
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

// NewBills is the comparison without what would go first, what is idle and why nodes stay.
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
