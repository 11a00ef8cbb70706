package packing

import (
	"cmp"
	"slices"
)

// mostPrices is how many larger machines are tried for pods that have to share one.
const mostPrices = 24

// absorb lets the machines of pods that have to share one be larger where they then hold all pods of others, and cost less than these: they
// were bought for their own pods alone. It answers with what is left of the others.
func (s *solver) absorb(m *supply, company, others []*openBin) []*openBin {
	for i, d := range company {
		all := d.price + priceOf(others)
		var prices []float64
		for _, g := range m.offerings {
			if g.pool == d.pool && g.price > d.price && g.price < all {
				prices = append(prices, g.price)
			}
		}
		slices.Sort(prices)
		prices = slices.Compact(prices)
		best, kept, least := d, others, all/equallyCheap // fewer machines for the same money lose more at once
		for _, most := range prices[:min(len(prices), mostPrices)] {
			if s.effort <= 0 {
				break
			}
			if grown, rest := s.takeIn(m, d, others, most); grown.price+priceOf(rest) < least {
				best, kept, least = grown, rest, grown.price+priceOf(rest)
			}
		}
		if best != d {
			s.chargeAll(others, -1)
			s.charge(d, -1)
			company[i], others = best, kept
			s.charge(best, 1)
			s.chargeAll(others, 1)
		}
	}
	return others
}

// takeIn is the open bin with all pods of as many of the others, the dearest first, as a machine of the price holds, and the rest of these.
func (s *solver) takeIn(m *supply, d *openBin, others []*openBin, most float64) (grown *openBin, rest []*openBin) {
	v := &visit{s: s, m: m, bins: []*openBin{d}, guests: make([]*guests, 1)}
	order := slices.Clone(others)
	slices.SortStableFunc(order, func(a, b *openBin) int { return cmp.Compare(b.price, a.price) })
	var undo []earlier
	for _, other := range order {
		before := len(undo)
		if s.effort <= 0 || !v.takes(other, most, &undo) {
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
