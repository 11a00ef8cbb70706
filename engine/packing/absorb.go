package packing

import (
	"cmp"
	"slices"
)

// mostPrices bounds the price ceilings with which absorb tries to replace one machine by a larger one. absorb may spend 1/absorbPart of the problem's
// Effort, even if the search for the other pods has spent all of its own effort.
const (
	mostPrices = 24
	absorbPart = 8
)

// absorb replaces machines of company, which were bought only for pods that have to share one machine. It replaces a machine by a larger one if the
// larger one also holds all pods of some machines of others, and costs less than all these machines together. absorb returns the machines of others
// that it has not replaced.
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
			before := bin.price + priceOf(others) - priceOf(rest) // the price of bin and of the machines that grown makes unnecessary
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

// takeIn replaces b by a machine that costs no more than `most` and holds all pods of as many of the others as possible. It returns this machine, and
// the others that it does not replace. In a first try, none of the others is charged to the limits, because the machine may need all their room
// there. If the machine and the remaining others exceed the limits, takeIn tries again with all of the others charged.
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
	v := &visit{s: s, sup: sup, bins: []*openBin{b}, guests: make([]*guests, 1)}
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
