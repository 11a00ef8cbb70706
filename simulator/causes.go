package simulator

import (
	"maps"
	"slices"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// CauseName names a cause for which a bill is above the integral of the bound.
type CauseName string

// These are the causes. The cost of the machines in use beyond a new plan for all pods is divided by the causes for which nodes are kept: each
// machine contributes its cost beyond the worth of its pods, and its cause is the reason that the last look at the nodes has found.
const (
	// Plan is the cost of a new plan for all pods beyond the bound, because of whole machines and of rules between pods. If the
	// machines in use cost less than this plan, Plan is less by the difference.
	Plan CauseName = "Plan"
	// Booting is the cost of machines that are not ready yet; Replacing is this cost for replacements, while the replaced nodes still run.
	Booting   CauseName = "Booting"
	Replacing CauseName = "Replacing"
	// Draining is the cost of machines from the deletion of their claims to their end, beyond the worth of their pods.
	Draining CauseName = "Draining"
	// Lost is the cost of draining machines that were lost or interrupted, and the cost of booting as many other machines.
	Lost CauseName = "Lost"
	// LeastBilling is the cost after the end of machines, because the cloud bills each for a minimum time.
	LeastBilling CauseName = "LeastBilling"
	// Fallback is the cost of machines beyond the cheapest offering that their launches listed. OnDemand is the cost of on-demand
	// machines beyond spot machines of the same type and zone, if the NodePool allows spot.
	Fallback CauseName = "Fallback"
	OnDemand CauseName = "OnDemand"
	// ConsolidateAfter, Budgets, Protected, Policy and MovesCost are the causes for which nodes are kept. Between represents all other causes.
	ConsolidateAfter CauseName = "ConsolidateAfter"
	Budgets          CauseName = "Budgets"
	Protected        CauseName = "Protected"
	Policy           CauseName = "Policy"
	MovesCost        CauseName = "MovesCost"
	Between          CauseName = "Between"
	// Waiting is the worth of the pending pods. It is below 0, because the bound includes these pods and no machine runs them yet.
	Waiting CauseName = "Waiting"
)

// causeOfKept maps the reason for which a node is kept to a cause. Between represents all other reasons.
var causeOfKept = map[engine.Code]CauseName{
	engine.ConsolidateAfter: ConsolidateAfter, engine.Unsettled: ConsolidateAfter,
	engine.BudgetExhausted: Budgets, engine.EvictionBlocked: Budgets, engine.OwnerMoved: Budgets, engine.Paused: Budgets, engine.OutsideMoveWindow: Budgets,
	engine.DoNotDisrupt: Protected, engine.GangRuns: Protected,
	engine.OnlyWhenEmpty: Policy, engine.NotBalanced: Policy, engine.ConsolidationDisabled: Policy, engine.StaticPool: Policy, engine.SpotToSpot: Policy,
	engine.SavesTooLittle: MovesCost, engine.NoCheaperPlace: MovesCost, engine.WouldStrand: MovesCost, engine.CannotMove: MovesCost,
}

// Cause is a part of the difference between a bill and the integral of the bound.
type Cause struct {
	Cause CauseName `json:"cause"`
	USD   float64   `json:"usd"`
	// Share is USD as a share of the integral of the bound.
	Share float64 `json:"share"`
}

// account is the cost of one machine with its cause.
type account struct {
	market   *market
	cause    CauseName // the cause of the machine's cost now; empty while the machine is in use
	boots    CauseName // the cause of the cost of its boot
	fallback float64   // its price beyond the cheapest listed offering, in USD per hour
	spent    float64   // entered so far, in USD
	upTo     time.Time
}

// ledger holds the accounts of all machines.
type ledger struct {
	agenda   *agenda
	markets  *markets
	accounts map[string]*account // the account of each machine
	paid     map[CauseName]float64
	lost     int // the number of lost or interrupted machines for which no other machine was started yet
}

// open begins an account. Its `price` is the expected price of the launch's cheapest offering; 0 if that price is unknown.
func (g *ledger) open(id engine.MachineID, claim *v1.NodeClaim, m *market, boots CauseName, price float64) {
	a := &account{market: m, cause: boots, boots: boots, upTo: g.agenda.now}
	if price > 0 {
		a.fallback = g.markets.price(m, claim.Labels) - price
	}
	g.accounts[string(id)] = a
}

// boots returns the cause to which the cost of the boot of a claim's machine is added.
func (g *ledger) boots(claim *v1.NodeClaim) CauseName {
	switch {
	case claim.Annotations[v1.ReplacesAnnotationKey] != "":
		return Replacing
	case g.lost > 0:
		g.lost--
		return Lost
	}
	return Booting
}

// follow updates the cause of a machine's cost after its claim has changed. deleted is the reason for which the claim is deleted, if it is.
func (g *ledger) follow(claim *v1.NodeClaim, deleted string) {
	id := claim.Status.ProviderID
	a := g.accounts[id]
	if a == nil {
		return
	}
	cause := a.cause
	switch {
	case claim.DeletionTimestamp != nil:
		cause = Draining
		if deleted == "interrupted" || deleted == "lost" {
			cause = Lost
		}
	case v1.IsTrue(claim, v1.ConditionInitialized):
		cause = ""
	}
	if cause != a.cause {
		g.enter(id, a)
		a.cause = cause
	}
}

// close ends the account of a machine that is gone.
func (g *ledger) close(id engine.MachineID) {
	if a := g.accounts[string(id)]; a != nil {
		if a.cause == "" { // its claim was never deleted
			a.cause = Lost
			g.lost++
		}
		g.enter(string(id), a)
		_, least := a.market.cloud.Spent(id)
		g.paid[a.cause] -= least
		g.paid[LeastBilling] += least
		delete(g.accounts, string(id))
	}
}

// enter brings an account up to now.
func (g *ledger) enter(id string, a *account) {
	spent, _ := a.market.cloud.Spent(engine.MachineID(id))
	spent -= a.spent
	a.spent += spent
	overhead := g.agenda.now.Sub(a.upTo).Hours() * g.markets.overhead
	a.upTo = g.agenda.now
	g.paid[a.cause] += spent + overhead
}

// turnPage brings all accounts up to now, and returns the costs since its last call.
func (g *ledger) turnPage() map[CauseName]float64 {
	for _, id := range slices.Sorted(maps.Keys(g.accounts)) { // in order, because sums of floats depend on it
		g.enter(id, g.accounts[id])
	}
	paid := g.paid
	g.paid = map[CauseName]float64{}
	return paid
}
