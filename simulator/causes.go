package simulator

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
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
	world    *World
	accounts map[string]*account // the account of each machine
	paid     map[CauseName]float64
	lost     int // the number of lost or interrupted machines for which no other machine was started yet
	samples  []*sample
}

// sample is a part of the measured time: the costs in this time, and the cluster at one instant of it. Rates are in USD per hour.
type sample struct {
	hours       float64
	paid        map[CauseName]float64 // by cause, in USD; the empty name is for machines in use
	cost        *engine.Cost          // the cost of the plan for the pods of the instant
	used        []inUse
	waiting     amounts // the requests of the pending pods
	going       map[CauseName]amounts
	worthOfUnit []float64 // by the resource's index, once the cost is known
}

// inUse is a machine in use, with or without pods.
type inUse struct {
	price, fallback, onDemand float64
	pods                      amounts
	why                       CauseName
}

// open begins an account. Its `price` is the expected price of the launch's cheapest offering; 0 if that price is unknown.
func (g *ledger) open(id engine.MachineID, claim *v1.NodeClaim, m *market, boots CauseName, price float64) {
	a := &account{market: m, cause: boots, boots: boots, upTo: g.world.agenda.now}
	if price > 0 {
		a.fallback = g.world.markets.price(m, claim.Labels) - price
	}
	g.accounts[string(id)] = a
}

// follow updates the cause of a machine's cost after its claim has changed.
func (g *ledger) follow(claim *v1.NodeClaim) {
	id := claim.Status.ProviderID
	a := g.accounts[id]
	if a == nil {
		return
	}
	cause := a.cause
	switch {
	case claim.DeletionTimestamp != nil:
		cause = Draining
		if why := g.world.causeOf(claim.Name); why == "interrupted" || why == "lost" {
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
	overhead := g.world.agenda.now.Sub(a.upTo).Hours() * g.world.base.NodeOverheadPrice
	a.upTo = g.world.agenda.now
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

// look adds the cluster at this instant to a sample.
func (g *ledger) look(x *sample) {
	w := g.world
	kept := map[string]engine.Code{}
	for _, k := range w.kept {
		kept[k.Claim] = k.Reason.Code
	}
	x.going = map[CauseName]amounts{}
	for _, s := range w.seatList {
		claim := w.claimOf(s)
		if claim == nil {
			continue
		}
		a := g.accounts[s.node.Spec.ProviderID]
		if a == nil {
			continue
		}
		var pods amounts
		for _, u := range s.units {
			if kube.IsReschedulable(u.pod) {
				pods.add(u.need, 1)
			}
		}
		if a.cause != "" {
			sum := x.going[a.cause]
			sum.add(pods, 1)
			x.going[a.cause] = sum
			continue
		}
		used := inUse{price: w.priceOf(s), fallback: a.fallback, pods: pods, why: cmp.Or(causeOfKept[kept[claim.Name]], Between)}
		used.onDemand = w.beyondSpot(s, claim)
		x.used = append(x.used, used)
	}
	for _, u := range w.unbound.list {
		x.waiting.add(u.need, 1)
	}
}

// beyondSpot returns how much more an on-demand machine costs than a spot machine of its type and zone, if its NodePool allows spot.
func (w *World) beyondSpot(s *seat, claim *v1.NodeClaim) float64 {
	pool, m := w.pool(claim.Labels[v1.NodePoolLabelKey]), w.markets.of(claim)
	if s.node.Labels[v1.CapacityTypeLabelKey] != v1.CapacityTypeOnDemand || pool == nil || m == nil ||
		!kube.AllowsValue(pool.Spec.Template.Spec.Requirements, v1.CapacityTypeLabelKey, v1.CapacityTypeSpot) {
		return 0
	}
	labels := maps.Clone(s.node.Labels)
	labels[v1.CapacityTypeLabelKey] = v1.CapacityTypeSpot
	spot := w.markets.price(m, labels)
	if spot <= w.base.NodeOverheadPrice { // not sold
		return 0
	}
	return max(0, w.priceOf(s)-spot)
}

// worthIn returns the worth of amounts at the plan's prices, in USD per hour.
func (x *sample) worthIn(a amounts) float64 {
	sum := 0.0
	for i, n := range a {
		if i < len(x.worthOfUnit) {
			sum += float64(n) * x.worthOfUnit[i]
		}
	}
	return sum
}

// readPrices sets worthOfUnit from the plan's prices.
func (x *sample) readPrices(numbers resources) {
	x.worthOfUnit = make([]float64, len(numbers))
	for _, p := range x.cost.Prices {
		i, known := numbers[p.Resource]
		if !known {
			continue
		}
		switch per := p.PerHour; {
		case p.Resource == corev1.ResourceCPU:
			x.worthOfUnit[i] = per / 1000
		case p.Unit == "GiB":
			x.worthOfUnit[i] = per / (1 << 30)
		default:
			x.worthOfUnit[i] = per
		}
	}
}

// share adds the costs beyond the bound in the sample's time to sum, by cause, in USD.
func (x *sample) share(sum map[CauseName]float64) {
	for cause, usd := range x.paid {
		if cause != "" {
			sum[cause] += usd
		}
	}
	// The cost of machines in use beyond the plan. The moves below add the worth of the pods that are on none of these machines.
	rest := x.paid[""] - x.hours*x.cost.LaunchesPerHour
	move := func(cause CauseName, rate float64) { // out of the rest
		sum[cause] += x.hours * rate
		rest -= x.hours * rate
	}
	sum[Plan] += x.hours * (x.cost.LaunchesPerHour - x.cost.Bound)
	move(Waiting, -x.worthIn(x.waiting))
	for _, cause := range slices.Sorted(maps.Keys(x.going)) {
		move(cause, -x.worthIn(x.going[cause]))
	}
	waste, wasted := map[CauseName]float64{}, 0.0
	for _, m := range x.used {
		move(Fallback, m.fallback)
		move(OnDemand, m.onDemand)
		own := max(0, m.price-m.fallback-m.onDemand-x.worthIn(m.pods))
		waste[m.why] += own
		wasted += own
	}
	if rest < 0 || wasted <= 0 {
		sum[Plan] += rest
		return
	}
	for _, cause := range slices.Sorted(maps.Keys(waste)) {
		sum[cause] += rest * waste[cause] / wasted
	}
}

// causes returns the parts of the cost beyond the bound, the largest first; the integral of the bound; and the integral of new plans.
// The sum of the parts is the bill less the integral of the bound.
func (g *ledger) causes() (out []Cause, bound, anew float64) {
	sum := map[CauseName]float64{}
	for _, x := range g.samples {
		x.readPrices(g.world.resources)
		x.share(sum)
		bound += x.hours * x.cost.Bound
		anew += x.hours * x.cost.LaunchesPerHour
	}
	for cause, usd := range sum {
		if usd = round(usd); usd != 0 {
			out = append(out, Cause{Cause: cause, USD: usd})
		}
	}
	slices.SortFunc(out, func(a, b Cause) int { return cmp.Or(cmp.Compare(b.USD, a.USD), cmp.Compare(a.Cause, b.Cause)) })
	for i := range out {
		if bound > 0 {
			out[i].Share = round(out[i].USD / bound)
		}
	}
	return out, bound, anew
}
