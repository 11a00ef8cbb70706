package packing

import (
	"cmp"
	"slices"
)

// mostPrices is the number of larger machines that are tried for pods that have to share one. absorb may spend 1/absorbPart of the effort, even if
// the search for the other pods has spent all of its own.
const (
	mostPrices = 24
	absorbPart = 8
)

// absorb replaces machines of company, on which pods have to share one machine, by larger ones, if a larger one also holds all pods of some
// of the others and costs less than all these machines together. company was bought for its own pods alone. absorb returns the rest of the
// others.
func (s *search) absorb(sup *supply, company, others []*openBin) []*openBin {
	order := slices.Clone(others)
	slices.SortStableFunc(order, func(a, b *openBin) int { return cmp.Compare(b.price, a.price) })
	held := s.market.effort
	s.market.effort = s.p.Effort / absorbPart
	defer func() { s.market.effort = held }()
	for i, bin := range company {
		var prices []float64
		for _, g := range sup.offerings {
			if g.pool == bin.pool && g.price > bin.price && g.price < bin.price+priceOf(others) {
				prices = append(prices, g.price)
			}
		}
		slices.Sort(prices)
		prices = slices.Compact(prices)
		var best *openBin
		var kept []*openBin
		saved := 0.0
		for k := range min(len(prices), mostPrices) {
			if s.market.effort <= 0 || s.p.stopped() {
				return others
			}
			grown, rest := s.takeIn(sup, bin, order, prices[k*len(prices)/min(len(prices), mostPrices)])
			before := bin.price + priceOf(others) - priceOf(rest) // of the machines that become one
			// If the price is about the same, two machines are better than one, because they are not lost together.
			if before > grown.price*equallyCheap && before-grown.price > saved {
				best, kept, saved = grown, rest, before-grown.price
			}
		}
		if best != nil {
			s.market.chargeAll(others, -1)
			s.market.charge(bin, -1)
			company[i], others, order = best, kept, kept
			s.market.charge(best, 1)
			s.market.chargeAll(others, 1)
		}
	}
	return others
}

// takeIn grows b into a machine that costs no more than "most" and holds all pods of as many of the others as possible. It returns this machine, and
// the others that it does not replace. First it looks for a machine as if none of the others counted against limits, because it may need all their
// room there. If this machine is not within limits beside the rest, takeIn looks again as if all of the others stayed.
func (s *search) takeIn(sup *supply, b *openBin, others []*openBin, most float64) (grown *openBin, rest []*openBin) {
	s.market.chargeAll(others, -1)
	grown, rest = s.takeInNow(sup, b, others, most)
	s.market.charge(b, -1)
	s.market.chargeAll(rest, 1)
	p := &s.market.pools[grown.pool]
	fits := (!p.limited || within(s.market.billOf(grown), p.left)) && s.market.quotasHold(s.market.drawsOf(grown))
	s.market.chargeAll(rest, -1)
	s.market.charge(b, 1)
	s.market.chargeAll(others, 1)
	if !fits {
		return s.takeInNow(sup, b, others, most)
	}
	return grown, rest
}

// takeInNow does the work of takeIn within the present room of limits.
func (s *search) takeInNow(sup *supply, b *openBin, others []*openBin, most float64) (grown *openBin, rest []*openBin) {
	v := &visit{s: s, m: sup, bins: []*openBin{b}, guests: make([]*guests, 1)}
	var undo []earlier
	for _, other := range others {
		s.market.use(1)
		before := len(undo)
		if !v.takes(other, most, &undo) {
			v.undo(undo[before:])
			undo = undo[:before]
			rest = append(rest, other)
		}
	}
	grown = v.bins[0]
	v.undo(undo)
	return grown, rest
}

// takes puts the pods of other on the machines of the visit, and records each step in undo. It stops and reports false if the first machine would
// cost more than "most".
func (v *visit) takes(other *openBin, most float64, undo *[]earlier) bool {
	for _, p := range other.loads {
		for range p.n {
			at, grown := v.host(p.lot, most*(1+1e-9)-v.bins[0].price)
			if grown == nil {
				return false
			}
			*undo = append(*undo, earlier{at, v.bins[at], v.guests[at]})
			v.move(at, grown, p.lot)
		}
	}
	return true
}
