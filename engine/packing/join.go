package packing

import (
	"math"

	"tenon.sh/engine/bound"
	"tenon.sh/engine/capacity"
)

// joined returns the open bin with one more pod, on the cheapest option that holds all its pods. It returns nil if there is none.
func (s *search) joined(old *openBin, ways *Ways, host *hostRules, request capacity.Vector, large, devices bool) *openBin {
	var best *openBin
	need := lacking(request, host.shared, old.has)
	for i := range ways.Pools[old.pool] {
		way := &ways.Pools[old.pool][i]
		free, ok := narrow(old.free, way.Free)
		if !ok {
			continue
		}
		b := *old
		b.free, b.ways, b.sum = free, way.Options.Clone(), old.sum.Clone()
		if old.ways != nil {
			b.ways.And(old.ways)
		}
		b.large, b.device = b.large || large, b.device || devices
		if s.market.pools[b.pool].Variety != nil && !s.market.varied(&b, b.ways, need) {
			continue
		}
		b.sum.Add(need, 1)
		b.has = s.p.withThings(old.has, host.shared)
		if s.market.cheapest(&b, s.leastPrice(&b)) && (best == nil || b.price < best.price) {
			best = &b
		}
	}
	return best
}

// leastPrice returns a lower bound for the price of any option that holds the open bin.
func (s *search) leastPrice(b *openBin) float64 {
	if len(s.low) == 0 {
		return 0
	}
	return bound.WorthOf(b.sum, s.low)
}

// accepts reports whether the rules of one more pod agree with the rules of the bin's pods.
func (b *openBin) accepts(r *hostRules, groups int) bool {
	if r.none() && groups == 0 {
		return true
	}
	count, most := make([]int, groups), make([]int, groups)
	for i := range most {
		most[i] = math.MaxInt
	}
	for _, other := range b.host {
		if clash(r, other) {
			return false
		}
		for _, g := range other.groups {
			count[g]++
		}
		for _, sp := range other.spread {
			most[sp.group] = min(most[sp.group], sp.most)
		}
	}
	return takes(r, count, most)
}
