package simulator

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/engine/scheduler"
	"tenon.sh/provider/simulated"
)

// Baseline, as a Config's policy, is an autoscaler as they have been for years, to compare with: pods that wait are packed onto the
// largest machines that they fill, each of which is then bought as the cheapest type that holds its pods; what is empty goes; and one
// node at a time goes whose pods fit elsewhere, or whose pods one cheaper machine takes. No search, no plan for several nodes
// together, no nominations, no price of moving. Which nodes may go, and when, is up to the same budgets, and what drifts, expires or
// breaks is replaced as ever.
const Baseline v1.ConsolidationPolicy = "Baseline"

// baseline is what a world with that policy keeps.
type baseline struct {
	flat      map[*engine.InstanceType][]engine.InstanceType // by the first of the list that it is made of
	flatCache inventory.Cache
	triedAt   map[string]time.Time // nodes, by name
}

// baselineLook is how often it looks for a node that can go.
const baselineLook = time.Minute

// baselineTries is how many nodes one look tries to empty: the others follow at the next looks. One that was tried in vain is left
// alone for baselineRest.
const (
	baselineTries = 20
	baselineRest  = 10 * time.Minute
)

// baselineOptions are those of all its plans.
func baselineOptions(o engine.Options) engine.Options {
	o.Effort, o.NoNominations = -1, true
	return o
}

// baselinePlan buys for the pods that wait. At one price for every machine the fewest machines are the cheapest, so the largest
// are filled; a launch lists all types that hold its pods, of which the cloud starts the cheapest.
func (w *World) baselinePlan(s *engine.Snapshot) *engine.Plan {
	flat := *s
	flat.Classes, flat.Commitments = slices.Clone(s.Classes), nil // which it does not know
	for i, c := range flat.Classes {
		flat.Classes[i].InstanceTypes = w.flatPrices(c.InstanceTypes)
	}
	return provisioning.Plan(&flat, w.cfg.Options, &w.flatCache)
}

// flatPrices gives every type the same price. Whoever may have spot machines still wants them rather than others.
func (w *World) flatPrices(types []engine.InstanceType) []engine.InstanceType {
	if len(types) == 0 {
		return types
	}
	if known, ok := w.flat[&types[0]]; ok {
		return known
	}
	out := slices.Clone(types)
	for i := range out {
		out[i].Offerings = slices.Clone(out[i].Offerings)
		for j := range out[i].Offerings {
			switch o := &out[i].Offerings[j]; o.CapacityType {
			case v1.CapacityTypeOnDemand:
				o.Price = 2
			case v1.CapacityTypeSpot:
				o.Price = 1
			default:
				o.Price = 0.5
			}
		}
	}
	if w.flat == nil || len(w.flat) > 2*len(w.markets) { // lists that are not shown any more are not asked for
		w.flat = map[*engine.InstanceType][]engine.InstanceType{}
	}
	w.flat[&types[0]] = out
	return out
}

// baselineDisruptions takes from a plan what consolidation has found, and has one node go instead, if one can. It goes by what the
// plan says of the nodes.
func (w *World) baselineDisruptions(s *engine.Snapshot, plan *engine.Plan) []engine.Disruption {
	var out []engine.Disruption
	var candidates []*v1.NodeClaim
	for _, d := range plan.Disruptions {
		if d.Reason != v1.Underutilized {
			out = append(out, d)
			continue
		}
		for _, name := range d.Claims {
			if claim, ok := w.claims.get(name); ok {
				candidates = append(candidates, claim)
			}
		}
	}
	for _, k := range plan.Kept {
		switch k.Reason.Code {
		case engine.NoCheaperPlace, engine.SavesTooLittle, engine.NotBalanced, engine.WouldStrand, engine.OnDemandShareLost, engine.SpotToSpot, engine.CannotMove, engine.Unsettled, engine.OwnerMoved:
			if claim, ok := w.claims.get(k.Claim); ok {
				candidates = append(candidates, claim)
			}
		}
	}
	if len(w.orders) > 0 { // one at a time
		return out
	}
	left := map[string]int{} // nodes that budgets let go, by pool
	for _, p := range s.NodePools {
		left[p.Name] = budget.PoolAllowance(s, p, v1.Underutilized).Left()
	}
	for _, d := range out {
		for _, name := range d.Claims {
			if claim, ok := w.claims.get(name); ok {
				left[claim.Labels[v1.NodePoolLabelKey]]--
			}
		}
	}
	candidates = slices.DeleteFunc(candidates, func(c *v1.NodeClaim) bool { return left[c.Labels[v1.NodePoolLabelKey]] <= 0 })
	seats := w.inTurn(candidates)
	for _, seat := range seats[:min(len(seats), baselineTries)] {
		w.triedAt[seat.node.Name] = w.clock.now
		if d, found := w.empty(s, seat); found {
			return append(out, d)
		}
	}
	return out
}

// inTurn lists the nodes of claims: those that were tried longest ago first, then those with the fewest pods.
func (w *World) inTurn(claims []*v1.NodeClaim) []*seat {
	var seats []*seat
	for _, claim := range claims {
		s := w.seatOf(claim)
		if s == nil || !s.alive || isGoing(claim) {
			continue
		}
		if at, tried := w.triedAt[s.node.Name]; !tried || w.clock.now.Sub(at) >= baselineRest {
			seats = append(seats, s)
		}
	}
	slices.SortFunc(seats, func(a, b *seat) int {
		return cmp.Or(w.triedAt[a.node.Name].Compare(w.triedAt[b.node.Name]), cmp.Compare(len(a.units), len(b.units)), cmp.Compare(a.node.Name, b.node.Name))
	})
	return seats
}

// empty finds how a node could go: its pods have room elsewhere, or need one machine that costs less.
func (w *World) empty(s *engine.Snapshot, seat *seat) (d engine.Disruption, found bool) {
	claim := w.claimOf(seat)
	d = engine.Disruption{Nodes: []string{seat.node.Name}, Claims: []string{claim.Name}, Reason: v1.Underutilized}
	replay := scheduler.Replay{Snapshot: s, Options: w.cfg.Options, Removed: map[string]bool{seat.node.Name: true}}
	for _, u := range seat.units {
		if kube.IsReschedulable(u.pod) {
			replay.Pods = append(replay.Pods, u.pod)
			d.Pods = append(d.Pods, kube.PodID(u.pod))
		}
	}
	for _, u := range w.unbound.list { // who waits comes first
		replay.Pods = append(replay.Pods, u.pod)
	}
	landing := replay.LandAgain(&w.cache)
	price := w.priceOf(seat)
	if !slices.ContainsFunc(landing.Stranded, func(id engine.PodID) bool { return slices.Contains(d.Pods, id) }) {
		d.SavingPerHour = price
		return d, true
	}
	if seat.node.Labels[v1.CapacityTypeLabelKey] != v1.CapacityTypeOnDemand { // as of old: spot machines are replaced by nothing
		return d, false
	}
	without := w.withoutSeat(s, seat, landing)
	without.Commitments = nil
	plan := provisioning.Plan(without, w.cfg.Options, nil)
	if len(plan.Launches) != 1 || len(plan.Unplaced) > 0 || !(plan.Launches[0].Price < price) {
		return d, false
	}
	d.Replacements, d.SavingPerHour = plan.Launches, price-plan.Launches[0].Price
	return d, true
}

// withoutSeat is the cluster less a node, whose pods wait but for those that have found room elsewhere.
func (w *World) withoutSeat(s *engine.Snapshot, seat *seat, landing scheduler.Landing) *engine.Snapshot {
	out := *s
	node := seat.node
	out.Nodes = slices.DeleteFunc(slices.Clone(s.Nodes), func(n *corev1.Node) bool { return n == node })
	out.NodeClaims = slices.DeleteFunc(slices.Clone(s.NodeClaims), func(c *v1.NodeClaim) bool { return c.Status.ProviderID == node.Spec.ProviderID })
	landed := map[string]string{}
	for _, p := range landing.Placements {
		landed[string(p.Pod.UID)] = p.Node
	}
	out.Pods = make([]*corev1.Pod, 0, len(s.Pods))
	for _, original := range s.Pods {
		pod := original
		if pod.Spec.NodeName == node.Name {
			if !kube.IsReschedulable(pod) {
				continue
			}
			pod = asNew(pod)
			pod.Spec.NodeName = landed[string(pod.UID)]
			if pod.Spec.NodeName != "" {
				pod.Status = corev1.PodStatus{Phase: corev1.PodRunning}
			}
		}
		if pod.Spec.NodeName != "" || pod != original { // machines are on their way for those that waited before
			out.Pods = append(out.Pods, pod)
		}
	}
	return &out
}

// priceOf is what a node costs now, by the list that plans see.
func (w *World) priceOf(s *seat) float64 {
	m := w.marketOf(w.claimOf(s))
	if m == nil || m.cloud == nil {
		return 0
	}
	return w.priceOn(m, s.node.Labels)
}

// priceOn is what a machine with the labels costs now, and what every node does beside.
func (w *World) priceOn(m *market, labels map[string]string) float64 {
	return m.cloud.Price(simulated.OfferingOf(engine.Machine{Labels: labels})) + w.base.NodeOverheadPrice
}
