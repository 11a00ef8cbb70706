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

// CauseName names why a bill is above the integral of the bound.
type CauseName string

// The causes. Those of nodes that stay share what the machines in use cost beyond a plan for all pods made now: each machine has a part
// by what it costs beyond the worth of its pods, and the reason is that of the last look at the nodes.
const (
	// Plan is what a plan for all pods, made anew, costs beyond the bound: whole machines, rules between pods. Where the machines
	// in use cost less than such a plan, they tell that it could cost less.
	Plan CauseName = "Plan"
	// Booting is paid for machines that are not ready yet, Replacing for those that will replace others, which run on meanwhile.
	Booting   CauseName = "Booting"
	Replacing CauseName = "Replacing"
	// Draining is paid for machines that were told to go until they are gone, beyond what their pods are worth.
	Draining CauseName = "Draining"
	// Lost is the same for machines that were lost or taken away, and the boots of as many machines as those.
	Lost CauseName = "Lost"
	// LeastBilling is paid after machines were gone, because none is billed for less than a time.
	LeastBilling CauseName = "LeastBilling"
	// Fallback is what machines cost beyond the cheapest offering that their launches listed; OnDemand what on-demand machines cost
	// beyond spot machines of the type, in the zone, that the pool allows.
	Fallback CauseName = "Fallback"
	OnDemand CauseName = "OnDemand"
	// ConsolidateAfter, Budgets, Protected, Policy and MovesCost keep nodes; Between is nodes that nothing has kept yet.
	ConsolidateAfter CauseName = "ConsolidateAfter"
	Budgets          CauseName = "Budgets"
	Protected        CauseName = "Protected"
	Policy           CauseName = "Policy"
	MovesCost        CauseName = "MovesCost"
	Between          CauseName = "Between"
	// Waiting is what the pods are worth that wait: the bound counts them, and nobody pays for them yet. It is below 0.
	Waiting CauseName = "Waiting"
)

// causeOfKept is the cause that a reason stands for why a node stays; any other is Between.
var causeOfKept = map[engine.Code]CauseName{
	engine.ConsolidateAfter: ConsolidateAfter, engine.Unsettled: ConsolidateAfter,
	engine.BudgetExhausted: Budgets, engine.EvictionBlocked: Budgets, engine.OwnerMoved: Budgets, engine.Paused: Budgets, engine.OutsideMoveWindow: Budgets,
	engine.DoNotDisrupt: Protected, engine.GangRuns: Protected,
	engine.OnlyWhenEmpty: Policy, engine.NotBalanced: Policy, engine.ConsolidationDisabled: Policy, engine.StaticPool: Policy, engine.SpotToSpot: Policy,
	engine.SavesTooLittle: MovesCost, engine.NoCheaperPlace: MovesCost, engine.WouldStrand: MovesCost, engine.CannotMove: MovesCost,
}

// Cause is a part of what a bill is above the integral of the bound.
type Cause struct {
	Cause CauseName `json:"cause"`
	USD   float64   `json:"usd"`
	// Share is USD as a share of the integral of the bound.
	Share float64 `json:"share"`
}

// account is what one machine costs, and for what.
type account struct {
	market   *market
	cause    CauseName // as which it is paid now; empty while it is in use
	boots    CauseName // as which its boot is paid
	fallback float64   // what it costs beyond the cheapest listed offering, in USD per hour
	spent    float64   // that has been entered, in USD
	upTo     time.Time
}

// ledger holds what every machine costs.
type ledger struct {
	world    *World
	accounts map[string]*account // by machine
	paid     map[CauseName]float64
	lost     int // machines that were lost or taken away, of which others have not taken the place yet
	samples  []*sample
}

// sample is a part of the time: what was paid in it, and the cluster at one instant of it. Rates are in USD per hour.
type sample struct {
	hours       float64
	paid        map[CauseName]float64 // in USD; of machines in use under the empty name
	cost        *engine.Cost          // of the plan for the pods of the instant
	used        []inUse
	waiting     amounts // what pods ask for that wait
	going       map[CauseName]amounts
	worthOfUnit []float64 // by the number of the resource, once the cost is known
}

// inUse is a machine that runs pods, or could.
type inUse struct {
	price, fallback, onDemand float64
	pods                      amounts
	why                       CauseName
}

// open begins an account. Price is what the cheapest offering of the launch was to cost, 0 if nobody knows.
func (g *ledger) open(id engine.MachineID, claim *v1.NodeClaim, m *market, boots CauseName, price float64) {
	a := &account{market: m, cause: boots, boots: boots, upTo: g.world.clock.now}
	if price > 0 {
		a.fallback = g.world.priceOn(m, claim.Labels) - price
	}
	g.accounts[string(id)] = a
}

// follow enters what has become of a claim.
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
		if a.cause == "" { // nobody has told it to go
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
	overhead := g.world.clock.now.Sub(a.upTo).Hours() * g.world.base.NodeOverheadPrice
	a.upTo = g.world.clock.now
	g.paid[a.cause] += spent + overhead
}

// turnPage brings all accounts up to now, and returns what has been paid since it was called last.
func (g *ledger) turnPage() map[CauseName]float64 {
	for _, id := range slices.Sorted(maps.Keys(g.accounts)) { // in order, so that sums are the same to the last bit
		g.enter(id, g.accounts[id])
	}
	paid := g.paid
	g.paid = map[CauseName]float64{}
	return paid
}

// look samples the cluster as it is now.
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

// beyondSpot is what an on-demand machine costs more than a spot machine of its type in its zone, where its pool allows that.
func (w *World) beyondSpot(s *seat, claim *v1.NodeClaim) float64 {
	pool, m := w.pool(claim.Labels[v1.NodePoolLabelKey]), w.marketOf(claim)
	if s.node.Labels[v1.CapacityTypeLabelKey] != v1.CapacityTypeOnDemand || pool == nil || m == nil ||
		!kube.AllowsValue(pool.Spec.Template.Spec.Requirements, v1.CapacityTypeLabelKey, v1.CapacityTypeSpot) {
		return 0
	}
	labels := maps.Clone(s.node.Labels)
	labels[v1.CapacityTypeLabelKey] = v1.CapacityTypeSpot
	spot := w.priceOn(m, labels)
	if spot <= w.base.NodeOverheadPrice { // not sold
		return 0
	}
	return max(0, w.priceOf(s)-spot)
}

// worthIn is what amounts are worth at the plan's prices, in USD per hour.
func (x *sample) worthIn(a amounts) float64 {
	sum := 0.0
	for i, n := range a {
		if i < len(x.worthOfUnit) {
			sum += float64(n) * x.worthOfUnit[i]
		}
	}
	return sum
}

// readPrices turns the plan's prices into those of a unit of each amount.
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

// share adds up by cause what was paid in the sample's time beyond the bound, in USD.
func (x *sample) share(sum map[CauseName]float64) {
	for cause, usd := range x.paid {
		if cause != "" {
			sum[cause] += usd
		}
	}
	// What machines in use cost beyond the plan, less what the plan has for pods that are on none of them.
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

// causes says where what was paid beyond the bound went, the largest part first, and what the integral of the bound is. All parts
// together are the bill less the integral.
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
