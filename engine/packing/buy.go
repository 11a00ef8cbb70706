package packing

import (
	"math"
	"slices"
)

// buy places the remaining pods on new machines of the pools, as far as it can.
func (s *search) buy(pools []int, turns [][]*demand) {
	if len(turns) > 1 && !s.p.batched() {
		// Pods of several turns may share machines, so only all turns together have a bound.
		if sup := s.newSupply(pools, s.demands); len(sup.demands) > 0 {
			defer func() { s.bound += s.boundOf(sup) }()
		}
	}
	for _, demands := range turns {
		held := s.bins
		s.bins = nil
		s.buyColocated(pools, demands)
		company := s.bins
		s.bins = held
		sup := s.newSupply(pools, demands)
		if len(sup.demands) == 0 {
			s.bins = append(s.bins, company...)
			continue
		}
		left := make([]int, len(sup.lots))
		for i := range sup.lots {
			left[i] = sup.lots[i].n
		}
		s.topUp(sup, company, left)
		s.low = sup.low
		bins := s.machinesFor(sup, left)
		s.low = nil // it does not hold for machines that also have other pods
		bins = s.absorb(sup, company, bins)
		s.hand(sup, s.squeeze(sup, left, append(bins, company...)))
		s.buyMore(sup, left)
		if len(turns) == 1 {
			s.bound += s.boundOf(sup)
		}
	}
	if len(turns) == 1 && len(pools) == len(s.market.pools) {
		s.split(pools, turns[0])
	}
}

// buyMore buys machines for the pods that are left, because cheaper machines may have left some room within limits. If the supply had at most fewPods
// pods, it does nothing, because split tries every way to divide so few pods.
func (s *search) buyMore(sup *supply, left []int) {
	pods := 0
	for _, n := range sup.before {
		pods += n
	}
	if pods <= fewPods || !slices.ContainsFunc(left, func(n int) bool { return n > 0 }) || !sup.ruleless(s) {
		return
	}
	g := s.newGreedy(sup, left)
	g.run()
	s.hand(sup, g.bins)
}

// equallyCheap is the factor by which machines that keep the replicas of workloads apart may cost more, though no pod requires them apart.
const equallyCheap = 1.005

// machinesFor finds machines for the pods of the supply. It keeps the replicas of each workload apart if that costs about the same.
func (s *search) machinesFor(sup *supply, left []int) []*openBin {
	if s.p.Effort == 0 || !sup.measureApart(s) {
		return s.cheapen(sup, s.first(sup, left))
	}
	spread := slices.Clone(left)
	sup.apart = true
	some := s.cheapen(sup, s.first(sup, spread))
	sup.apart = false
	price := priceOf(some)
	if price <= sup.bound.Value*equallyCheap && !slices.ContainsFunc(spread, func(n int) bool { return n > 0 }) {
		copy(left, spread)
		return some
	}
	s.market.chargeAll(some, -1)
	all := s.cheapen(sup, s.first(sup, left))
	if priceOf(all)*equallyCheap < price || !slices.Equal(left, spread) {
		return all
	}
	s.market.chargeAll(all, -1)
	s.market.chargeAll(some, 1)
	return some
}

// apartShare bounds the replicas of a workload on one machine: at most 1/apartShare of them.
const apartShare = 3

// measureApart sets the greatest number of pods of each lot that one machine should have. It reports whether it set any.
func (sup *supply) measureApart(s *search) bool {
	any := false
	for i := range sup.lots {
		l := &sup.lots[i]
		owner := -1
		for _, d := range l.demands {
			owners := s.p.Classes[d.class].Owners
			for _, pod := range d.queue[len(d.queue)-d.left:] {
				switch {
				case len(owners) == 0 || owners[pod] < 0 || owner >= 0 && owners[pod] != owner:
					owner = math.MaxInt
				case owner < 0:
					owner = owners[pod]
				}
			}
		}
		if l.most = 0; owner >= 0 && owner < math.MaxInt && l.n > 1 {
			l.most = (l.n + apartShare - 1) / apartShare
			any = true
		}
	}
	return any
}

// If a plan costs more than nearBound times the bound and has at most mostToBuyTwice machines, the method first also tries a plan that buys machines
// with devices before all others.
const (
	nearBound      = 1.01
	mostToBuyTwice = 400
)

// first buys the first machines. If some pods need devices, it may also make a plan that buys the machines with devices before all others, because
// these are needed in any case and have room for other pods. first keeps the cheaper plan.
func (s *search) first(sup *supply, left []int) []*openBin {
	again := slices.Clone(left)
	g := s.newGreedy(sup, left)
	g.run()
	if s.p.Effort == 0 || !sup.forDevices() || g.cost <= sup.bound.Value*nearBound || len(g.bins) > mostToBuyTwice {
		return g.bins
	}
	s.market.chargeAll(g.bins, -1)
	other := s.newGreedy(sup, again)
	other.forced = true
	other.run()
	if slices.Equal(again, left) && other.cost < g.cost {
		return other.bins
	}
	s.market.chargeAll(other.bins, -1)
	s.market.chargeAll(g.bins, 1)
	return g.bins
}

// fewKinds is the number of kinds of pods up to which boundOf also uses fillings of whole machines; with more kinds, that takes as long as
// the plan itself.
const fewKinds = 16

// boundOf returns the supply's bound for the pods that got machines.
func (s *search) boundOf(sup *supply) float64 {
	counts := make([]int, len(sup.demands))
	all := true
	for i, d := range sup.demands {
		counts[i] = sup.before[i] - d.left
		all = all && d.left == 0
	}
	b := sup.bound
	if !all {
		b = s.boundFor(sup, counts)
	}
	if s.p.Effort == 0 || b.Value <= 0 || priceOf(s.bins) <= b.Value*nearBound {
		return b.Value
	}
	sum := 0.0
	for _, part := range b.Parts() {
		value := part.Value
		if part.Kinds() <= fewKinds {
			if f := part.Fillings(boundSteps); f != nil {
				value = max(value, f.Value)
			}
		}
		sum += value
	}
	return max(b.Value, sum-s.p.Relief)
}

// hand gives each open bin the number of pods that its loads list. It deals out the pods of a lot in turn: neighbours in the lot, often replicas of
// one owner, are put on different machines at no cost.
func (s *search) hand(sup *supply, bins []*openBin) {
	type part struct{ bin, n int }
	parts := make([][]part, len(sup.lots))
	for i, b := range bins {
		for _, p := range b.loads {
			parts[p.lot] = append(parts[p.lot], part{i, p.n})
		}
		b.loads = nil
	}
	for lot, list := range parts {
		for len(list) > 0 {
			kept := list[:0]
			for _, p := range list {
				demand := sup.next(lot)
				b := bins[p.bin]
				b.pinned = append(b.pinned, Pod{demand.class, demand.queue[len(demand.queue)-demand.left]})
				demand.left--
				if p.n > 1 {
					kept = append(kept, part{p.bin, p.n - 1})
				}
			}
			list = kept
		}
	}
	s.bins = append(s.bins, bins...)
}

// next returns the first demand of the lot that has pods left.
func (sup *supply) next(lot int) *demand {
	l := &sup.lots[lot]
	for l.demands[0].left == 0 {
		l.demands = l.demands[1:]
	}
	return l.demands[0]
}
