package packing

import (
	"cmp"
	"slices"
)

// mostPrices is how many larger machines are tried for pods that have to share one, absorbPart the part of the effort, one of so many, that
// goes into it, whatever the search for the others has spent.
const (
	mostPrices = 24
	absorbPart = 8
)

// absorb lets the machines of pods that have to share one be larger where they then hold all pods of others, and cost less than these: they
// were bought for their own pods alone. It answers with what is left of the others.
func (s *solver) absorb(sup *supply, company, others []*openBin) []*openBin {
	order := slices.Clone(others)
	slices.SortStableFunc(order, func(a, b *openBin) int { return cmp.Compare(b.price, a.price) })
	held := s.effort
	s.effort = s.p.Effort / absorbPart
	defer func() { s.effort = held }()
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
			if s.effort <= 0 || s.p.stopped() {
				return others
			}
			grown, rest := s.takeIn(sup, bin, order, prices[k*len(prices)/min(len(prices), mostPrices)])
			before := bin.price + priceOf(others) - priceOf(rest) // of what is one machine then
			// Where the price is about the same, two machines are better than one: they are not lost together.
			if before > grown.price*equallyCheap && before-grown.price > saved {
				best, kept, saved = grown, rest, before-grown.price
			}
		}
		if best != nil {
			s.chargeAll(others, -1)
			s.charge(bin, -1)
			company[i], others, order = best, kept, kept
			s.charge(best, 1)
			s.chargeAll(others, 1)
		}
	}
	return others
}

// takeIn is the open bin with all pods of as many of the others as a machine of the price holds, and the rest of these. One machine may
// need all that the others use of limits, so it is looked for as if none of them stayed, and, if it does not fit beside those that do,
// as if all of them did.
func (s *solver) takeIn(sup *supply, b *openBin, others []*openBin, most float64) (grown *openBin, rest []*openBin) {
	s.chargeAll(others, -1)
	grown, rest = s.takeInNow(sup, b, others, most)
	s.charge(b, -1)
	s.chargeAll(rest, 1)
	p := &s.pools[grown.pool]
	fits := (!p.limited || within(s.billOf(grown), p.left)) && s.quotasHold(s.drawsOf(grown))
	s.chargeAll(rest, -1)
	s.charge(b, 1)
	s.chargeAll(others, 1)
	if !fits {
		return s.takeInNow(sup, b, others, most)
	}
	return grown, rest
}

// takeInNow is takeIn within what limits leave now.
func (s *solver) takeInNow(sup *supply, b *openBin, others []*openBin, most float64) (grown *openBin, rest []*openBin) {
	v := &visit{s: s, m: sup, bins: []*openBin{b}, guests: make([]*guests, 1)}
	var undo []earlier
	for _, other := range others {
		s.use(1)
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

// takes puts all pods of the other machine on the first one, as long as that costs no more than the price.
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
