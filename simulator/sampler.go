package simulator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
)

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

// sampler takes samples of the world, and computes from them the bound and the causes for which the bill is above the bound.
type sampler struct {
	cfg      *Config
	agenda   *agenda
	meter    *meter
	markets  *markets
	cluster  *cluster
	passes   *passes
	samples  []*sample
	planning sync.WaitGroup // waits for the plans that findBound has begun
}

// open begins to measure.
func (p *sampler) open(ctx context.Context, begin, end time.Time) {
	p.meter.ledger.turnPage()
	every := p.cfg.boundEvery()
	for at := begin; at.Before(end); at = at.Add(every) {
		until := at.Add(every)
		if until.After(end) {
			until = end
		}
		x := &sample{hours: until.Sub(at).Hours(), cost: new(engine.Cost)}
		p.samples = append(p.samples, x)
		// At a random time, because pods of CronJobs are created and end by the clock: at a fixed time they would always exist, or never.
		drawn := newDice(p.cfg.Seed, "bound", at.Sub(begin).String()).uniform()
		p.agenda.exactly(at.Add(time.Duration(drawn*float64(until.Sub(at))).Truncate(time.Second)), func() { p.findBound(ctx, x) })
		if until.Before(end) {
			p.agenda.exactly(until, func() { x.paid = p.meter.ledger.turnPage() })
		}
	}
}

// findBound computes the least possible cost of the pods that exist now, and the cost of a plan for them. The world continues meanwhile, because
// nothing in it depends on the result. Only one plan of this kind is made at a time.
func (p *sampler) findBound(ctx context.Context, x *sample) {
	p.look(x)
	p.planning.Wait()
	plan := p.anew(ctx)
	h := &p.meter.hours[len(p.meter.hours)-1]
	bound, anew := new(float64), new(float64) // nobody reads them before planning has ended
	h.BoundPerHour, h.AnewPerHour = bound, anew
	p.planning.Go(func() {
		*x.cost = plan()
		*bound, *anew = round(x.cost.Bound), round(x.cost.LaunchesPerHour)
	})
}

// anew prepares a plan for all pods that exist now, on new machines, with all offerings available. The function that it returns
// computes the cost from data that does not change any more, and may be called on another goroutine.
func (p *sampler) anew(ctx context.Context) func() engine.Cost {
	s := p.cluster.snapshot(ctx)
	for i, m := range p.markets.list {
		if m.cloud != nil {
			s.Classes[i].InstanceTypes = asBilled(plainTypes(m.cloud.Catalog(), m.labels))
		}
	}
	s.Nodes, s.NodeClaims, s.CSINodes, s.VolumeAttachments = nil, nil, nil, nil
	pods, foreign := slices.Clone(s.Pods), p.cluster.foreignNodes()
	s.Pods = nil
	opt := p.cfg.Options
	opt.Effort = 0 // as much as a controller uses, because a plan with less effort has a lower bound
	return func() engine.Cost {
		for _, pod := range pods {
			if kube.IsReschedulable(pod) && !isGated(pod) && !foreign[pod.Spec.NodeName] {
				s.Pods = append(s.Pods, asNew(pod))
			}
		}
		return provisioning.Plan(s, opt, nil).Cost
	}
}

// asBilled returns the types without interruption losses, because no bill contains these losses.
func asBilled(types []engine.InstanceType) []engine.InstanceType {
	for i := range types { // the list is the caller's own
		counted := func(o engine.Offering) bool { return o.InterruptionLoss > 0 }
		if slices.ContainsFunc(types[i].Offerings, counted) {
			types[i].Offerings = slices.Clone(types[i].Offerings)
			for j := range types[i].Offerings {
				types[i].Offerings[j].InterruptionLoss = 0
			}
		}
	}
	return types
}

// asNew returns a copy of the pod as if it had never had a node.
func asNew(pod *corev1.Pod) *corev1.Pod {
	free := *pod
	free.Spec.NodeName, free.Status.NominatedNodeName, free.DeletionTimestamp = "", "", nil
	free.Status.Phase = corev1.PodPending
	free.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	return &free
}

// look adds the cluster at this instant to a sample.
func (p *sampler) look(x *sample) {
	kept := map[string]engine.Code{}
	for _, k := range p.passes.kept {
		kept[k.Claim] = k.Reason.Code
	}
	x.going = map[CauseName]amounts{}
	for _, s := range p.cluster.seatList {
		claim := p.cluster.claimOf(s)
		if claim == nil {
			continue
		}
		a := p.meter.ledger.accounts[s.node.Spec.ProviderID]
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
		used := inUse{price: p.cluster.priceOf(s), fallback: a.fallback, pods: pods, why: cmp.Or(causeOfKept[kept[claim.Name]], Between)}
		used.onDemand = p.cluster.beyondSpot(s, claim)
		x.used = append(x.used, used)
	}
	for _, u := range p.cluster.unbound.list {
		x.waiting.add(u.need, 1)
	}
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

// close ends the last sample. It returns the parts of the cost beyond the bound, the largest first; the integral of the bound; and the integral of new
// plans.
// The sum of the parts is the bill less the integral of the bound.
func (p *sampler) close() (out []Cause, bound, anew float64) {
	p.samples[len(p.samples)-1].paid = p.meter.ledger.turnPage()
	sum := map[CauseName]float64{}
	for _, x := range p.samples {
		x.readPrices(p.cluster.resources)
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
