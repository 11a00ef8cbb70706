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
)

// Baseline, as a Config's policy, is a simple autoscaler to compare with. It packs pending pods onto the largest machines that they fill, and buys
// each machine as the cheapest type that holds its pods. It removes empty nodes. It also removes one node at a time if its pods fit on other nodes,
// or on one cheaper machine. It has no search, no plan for several nodes together, no nominations, and no cost of moves. It observes the same
// budgets, and nodes that drift, expire or break are replaced as with other policies.
const Baseline v1.ConsolidationPolicy = "Baseline"

// baseline makes the plans of a world with this policy. Other worlds have no baseline.
type baseline struct {
	cfg       *Config
	agenda    *agenda
	markets   *markets
	cluster   *cluster
	orders    *orders
	cache     *inventory.Cache
	flat      map[*engine.InstanceType][]engine.InstanceType // the key is the first type of the original list
	flatCache inventory.Cache
	triedAt   map[string]time.Time // nodes, by name
}

// baselineLook is how often Baseline looks for a node to remove.
const baselineLook = time.Minute

// baselineTries is the number of nodes that one look tries to remove; later looks try the other nodes. A node that was tried is left alone for
// baselineRest.
const (
	baselineTries = 20
	baselineRest  = 10 * time.Minute
)

// baselineOptions returns the options of all plans of Baseline.
func baselineOptions(o engine.Options) engine.Options {
	o.Effort, o.NoNominations = -1, true
	return o
}

// plan buys machines for pending pods. Machines of one capacity type have one price, so the fewest and largest are the
// cheapest. A launch lists all types that hold its pods, and the cloud starts the cheapest.
func (x *baseline) plan(s *engine.Snapshot) *engine.Plan {
	flat := *s
	flat.Classes, flat.Commitments = slices.Clone(s.Classes), nil // Baseline ignores commitments
	for i, c := range flat.Classes {
		flat.Classes[i].InstanceTypes = x.flatPrices(c.InstanceTypes)
	}
	return provisioning.Plan(&flat, x.cfg.Options, &x.flatCache)
}

// flatPrices gives all offerings of a capacity type one price: on-demand costs more than spot, and spot more than reserved.
func (x *baseline) flatPrices(types []engine.InstanceType) []engine.InstanceType {
	if len(types) == 0 {
		return types
	}
	if known, ok := x.flat[&types[0]]; ok {
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
	if x.flat == nil || len(x.flat) > 2*len(x.markets.list) { // snapshots do not contain the older lists any more
		x.flat = map[*engine.InstanceType][]engine.InstanceType{}
	}
	x.flat[&types[0]] = out
	return out
}

// disruptions drops the plan's disruptions for the reason Underutilized, and adds the removal of one node, if one can be removed. It chooses
// among the nodes of the dropped disruptions, and among nodes that the plan keeps for certain reasons.
func (x *baseline) disruptions(s *engine.Snapshot, plan *engine.Plan) []engine.Disruption {
	var out []engine.Disruption
	var candidates []*v1.NodeClaim
	for _, d := range plan.Disruptions {
		if d.Reason != v1.Underutilized {
			out = append(out, d)
			continue
		}
		for _, name := range d.Claims {
			if claim, ok := x.cluster.claims.get(name); ok {
				candidates = append(candidates, claim)
			}
		}
	}
	for _, k := range plan.Kept {
		switch k.Reason.Code {
		case engine.NoCheaperPlace, engine.SavesTooLittle, engine.NotBalanced, engine.WouldStrand, engine.OnDemandShareLost, engine.SpotToSpot, engine.CannotMove, engine.Unsettled, engine.OwnerMoved:
			if claim, ok := x.cluster.claims.get(k.Claim); ok {
				candidates = append(candidates, claim)
			}
		}
	}
	if len(x.orders.inProgress) > 0 { // one at a time
		return out
	}
	left := map[string]int{} // by NodePool, the number of nodes that the budgets still allow
	for _, p := range s.NodePools {
		left[p.Name] = budget.PoolAllowance(s, p, v1.Underutilized).Left()
	}
	for _, d := range out {
		for _, name := range d.Claims {
			if claim, ok := x.cluster.claims.get(name); ok {
				left[claim.Labels[v1.NodePoolLabelKey]]--
			}
		}
	}
	candidates = slices.DeleteFunc(candidates, func(c *v1.NodeClaim) bool { return left[c.Labels[v1.NodePoolLabelKey]] <= 0 })
	seats := x.inTurn(candidates)
	for _, seat := range seats[:min(len(seats), baselineTries)] {
		x.triedAt[seat.node.Name] = x.agenda.now
		if d, found := x.empty(s, seat); found {
			return append(out, d)
		}
	}
	return out
}

// inTurn lists the nodes of claims without a try within baselineRest. The longest time since a try comes first, then the fewest pods.
func (x *baseline) inTurn(claims []*v1.NodeClaim) []*seat {
	var seats []*seat
	for _, claim := range claims {
		s := x.cluster.seatOf(claim)
		if s == nil || !s.alive || isGoing(claim) {
			continue
		}
		if at, tried := x.triedAt[s.node.Name]; !tried || x.agenda.now.Sub(at) >= baselineRest {
			seats = append(seats, s)
		}
	}
	slices.SortFunc(seats, func(a, b *seat) int {
		return cmp.Or(x.triedAt[a.node.Name].Compare(x.triedAt[b.node.Name]), cmp.Compare(len(a.units), len(b.units)), cmp.Compare(a.node.Name, b.node.Name))
	})
	return seats
}

// empty returns a disruption of the node if its pods have room on other nodes, or on one cheaper machine.
func (x *baseline) empty(s *engine.Snapshot, seat *seat) (d engine.Disruption, found bool) {
	claim := x.cluster.claimOf(seat)
	d = engine.Disruption{Nodes: []string{seat.node.Name}, Claims: []string{claim.Name}, Reason: v1.Underutilized}
	replay := scheduler.Replay{Snapshot: s, Options: x.cfg.Options, Removed: map[string]bool{seat.node.Name: true}}
	for _, u := range seat.units {
		if kube.IsReschedulable(u.pod) {
			replay.Pods = append(replay.Pods, u.pod)
			d.Pods = append(d.Pods, kube.PodID(u.pod))
		}
	}
	for _, u := range x.cluster.unbound.list { // pending pods need room too
		replay.Pods = append(replay.Pods, u.pod)
	}
	landing := replay.LandAgain(x.cache)
	price := x.cluster.priceOf(seat)
	if !slices.ContainsFunc(landing.Stranded, func(id engine.PodID) bool { return slices.Contains(d.Pods, id) }) {
		d.SavingPerHour = price
		return d, true
	}
	if seat.node.Labels[v1.CapacityTypeLabelKey] != v1.CapacityTypeOnDemand { // only on-demand machines get a replacement
		return d, false
	}
	without := x.withoutSeat(s, seat, landing)
	without.Commitments = nil
	plan := provisioning.Plan(without, x.cfg.Options, nil)
	if len(plan.Launches) != 1 || len(plan.Unplaced) > 0 || !(plan.Launches[0].Price < price) {
		return d, false
	}
	d.Replacements, d.SavingPerHour = plan.Launches, price-plan.Launches[0].Price
	return d, true
}

// withoutSeat returns the snapshot without a node. The pods of the node are pending, except the pods that have landed on other nodes.
func (x *baseline) withoutSeat(s *engine.Snapshot, seat *seat, landing scheduler.Landing) *engine.Snapshot {
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
		if pod.Spec.NodeName != "" || pod != original { // pods that were pending before have machines on their way
			out.Pods = append(out.Pods, pod)
		}
	}
	return &out
}
