package packing

import (
	"math"
	"slices"

	"tenon.sh/engine/capacity"
)

// buyColocated places the pods that have to share a machine with certain other pods. Each pod joins, of the machines with these pods, the
// one whose price rises least. If there is none, a machine is started with one of these pods.
func (s *search) buyColocated(pools []int, demands []*demand) {
	for _, d := range demands {
		if len(d.company) == 0 {
			continue
		}
		for d.left > 0 && s.joinColocated(pools, d) {
			d.left--
		}
	}
}

func (s *search) joinColocated(pools []int, it *demand) bool {
	best, at, least := (*openBin)(nil), -1, math.Inf(1)
	for i, b := range s.bins {
		if !s.isColocated(b, it) || !slices.Contains(pools, b.pool) || !b.accepts(it.host, s.host.nGroups) {
			continue
		}
		s.market.charge(b, -1)
		grown := s.joined(b, it.ways, it.host, it.request, false, false)
		if grown == nil {
			grown = s.joined(b, it.ways, it.host, it.request, true, true)
		}
		s.market.charge(b, 1)
		if grown != nil && grown.price-b.price < least {
			best, at, least = grown, i, grown.price-b.price
		}
	}
	if best == nil {
		return s.startColocated(pools, it)
	}
	s.market.charge(s.bins[at], -1)
	s.market.charge(best, 1)
	s.accept(best, it)
	s.bins[at] = best
	return true
}

// accept adds the next pod of the demand to the open bin.
func (s *search) accept(b *openBin, it *demand) {
	b.pinned = append(b.pinned[:len(b.pinned):len(b.pinned)], Pod{it.class, it.queue[len(it.queue)-it.left]})
	b.host = append(b.host[:len(b.host):len(b.host)], it.host)
	sets := make([]int, s.host.nSets)
	copy(sets, b.sets)
	for _, set := range it.rules.Sets {
		if h := s.host.sets[set]; h >= 0 {
			sets[h]++
		}
	}
	b.sets = sets
}

// startColocated starts a machine with one pod of the demand and one pod that it has to share the machine with. It takes a large option, or one with
// devices, only if no other option holds both. It returns false if no machine can be bought.
func (s *search) startColocated(pools []int, d *demand) bool {
	best, host := s.newColocated(pools, d, false)
	if best == nil {
		best, host = s.newColocated(pools, d, true)
	}
	if best == nil || !s.market.spend(best) {
		return false
	}
	best.host = nil
	s.accept(best, host)
	host.left--
	s.accept(best, d)
	s.bins = append(s.bins, best)
	return true
}

// newColocated returns the cheapest machine for a pod of the demand and a pod that it has to share the machine with, and the demand of that
// other pod as host.
func (s *search) newColocated(pools []int, it *demand, special bool) (best *openBin, host *demand) {
	for _, other := range s.demands {
		if other == it || other.left == 0 || len(other.company) > 0 || !allIn(it.company, other.rules.Sets) {
			continue
		}
		for _, p := range pools {
			empty := &openBin{pool: p, sum: make(capacity.Vector, len(it.request)), free: s.market.pools[p].Free}
			b := s.joined(empty, other.ways, other.host, other.request, special, special)
			if b == nil {
				continue
			}
			b.host = []*hostRules{other.host}
			if !b.accepts(it.host, s.host.nGroups) {
				continue
			}
			if b = s.joined(b, it.ways, it.host, it.request, special, special); b != nil && (best == nil || b.price < best.price) {
				best, host = b, other
			}
		}
	}
	return best, host
}

// isColocated reports whether the open bin has all pods that the demand needs there.
func (s *search) isColocated(b *openBin, it *demand) bool {
	return b.sets != nil && !slices.ContainsFunc(it.company, func(set int) bool { return b.sets[s.host.sets[set]] == 0 })
}

// allIn reports whether list contains every element of numbers.
func allIn(numbers, list []int) bool {
	return !slices.ContainsFunc(numbers, func(n int) bool { return !slices.Contains(list, n) })
}
