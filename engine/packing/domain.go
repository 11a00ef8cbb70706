package packing

import (
	"math"
	"slices"

	"tenon.sh/engine/capacity"
)

// choicesOf lists the domains in which some listed option holds a pod of the class.
func (s *solver) choicesOf(c, l int) []domainChoice {
	ls := &s.classes[c].levels[l]
	if ls.spotsRead {
		return ls.spots
	}
	ls.spotsRead = true
	class := &s.p.Classes[c]
	for spot := range ls.view.domains {
		ways := s.narrowed(class.Levels[l].Ways, ls.view, spot)
		if ways == nil {
			continue
		}
		host := s.besideResidents(ls, ls.view.domains[spot])
		if host == nil {
			continue
		}
		if tier, ok := s.sellsClass(ways, c); ok {
			ls.spots = append(ls.spots, domainChoice{spot: spot, tier: tier, ways: ways, host: host})
		}
	}
	if len(ls.spots) > 1 || s.p.Weighted {
		s.compare(c, l)
	}
	return ls.spots
}

func (s *solver) narrowed(ways *Ways, v *view, spot int) *Ways {
	key := narrowKey{ways, v, spot}
	if out, ok := s.narrow[key]; ok {
		return out
	}
	out := v.narrowed(ways, spot)
	s.narrow[key] = out
	return out
}

type rateKey struct {
	ways  *Ways
	shape int
}

type rating struct {
	tier  int
	ok    bool
	rated bool
	rate  float64
}

// sellsClass is sells for the request of a class; answers are kept by shape.
func (s *solver) sellsClass(ways *Ways, c int) (tier int, ok bool) {
	key := rateKey{ways, s.shapeOf[c]}
	r := s.rates[key]
	if r == nil {
		r = &rating{}
		r.tier, r.ok = s.sells(ways, s.p.Classes[c].Request)
		s.rates[key] = r
	}
	return r.tier, r.ok
}

// rateClass is rate for the request of a class.
func (s *solver) rateClass(ways *Ways, c int) float64 {
	s.sellsClass(ways, c)
	r := s.rates[rateKey{ways, s.shapeOf[c]}]
	if !r.rated {
		r.rate, r.rated = s.rate(ways, s.p.Classes[c].Request), true
	}
	return r.rate
}

// sells reports whether some listed option holds v, and the rank of the heaviest pool that has one.
func (s *solver) sells(ways *Ways, v capacity.Vector) (tier int, ok bool) {
	tier = math.MaxInt
	for p := range s.pools {
		if len(ways.Pools[p]) == 0 || -s.pools[p].Weight >= tier {
			continue
		}
		if s.poolSells(ways.Pools[p], p, v) {
			tier, ok = -s.pools[p].Weight, true
		}
	}
	return tier, ok
}

func (s *solver) poolSells(ways []Way, p int, v capacity.Vector) bool {
	sh := &s.pools[p]
	for _, o := range slices.Backward(sh.byPrice) { // dear ones are large: most pods fit the first
		if v.Fits(sh.Options[o].Allocatable) && admits(ways, o) && s.affordable(p, o) {
			return true
		}
	}
	return false
}

func admits(ways []Way, o int) bool {
	for i := range ways {
		if ways[i].Options.Has(o) {
			return true
		}
	}
	return false
}

// compare works out how much dearer each domain is than the cheapest for what the class asks for, and in which ones its
// dependants can be. Where what a level misses has a price, the cheapest is that of the last level: what an earlier one asks
// for may be dear in every domain.
func (s *solver) compare(c, l int) {
	ls := &s.classes[c].levels[l]
	least := s.leastRate(c, ls.spots)
	if last := len(s.p.Classes[c].Levels) - 1; s.p.Weighted && l < last {
		least = min(least, s.leastRate(c, s.choicesOf(c, last)))
	}
	for i := range ls.spots {
		ls.spots[i].dear = s.rateClass(ls.spots[i].ways, c)
		if least > 0 {
			ls.spots[i].dear = ls.spots[i].dear/least - 1
		}
		ls.spots[i].wanted = s.wanted(c, l, ls.spots[i].spot)
	}
}

func (s *solver) leastRate(c int, spots []domainChoice) float64 {
	least := math.Inf(1)
	for i := range spots {
		least = min(least, s.rateClass(spots[i].ways, c))
	}
	return least
}

// rate is the least that an option asks for the share of it that the request takes up.
func (s *solver) rate(ways *Ways, request capacity.Vector) float64 {
	best := math.Inf(1)
	for p := range s.pools {
		sh := &s.pools[p]
		for _, o := range sh.byPrice {
			option := &sh.Options[o]
			if !admits(ways.Pools[p], o) || !request.Fits(option.Allocatable) {
				continue
			}
			share := 0.0
			for d, n := range request {
				if n > 0 {
					share = max(share, float64(n)/float64(option.Allocatable[d]))
				}
			}
			best = min(best, option.Price*share)
		}
	}
	return best
}

// wanted reports whether every class that wants to be with this one can be in the domain.
func (s *solver) wanted(c, l, spot int) bool {
	ls := &s.classes[c].levels[l]
	for _, set := range ls.rules.Sets {
		for _, f := range s.unsold(set, ls.view, spot) {
			if f.class != c && !s.hasNode(f, set, ls.view.domains[spot]) {
				return false
			}
		}
	}
	return true
}

type unsoldKey struct {
	set  int
	view *view
	spot int
}

// unsold lists the dependants of the set for which no machine can be bought in the label domains of the domain.
func (s *solver) unsold(set int, v *view, spot int) []dependant {
	key := unsoldKey{set, v, spot}
	list, known := s.unsoldTo[key]
	if !known {
		s.look(len(s.followers[set]))
		for _, f := range s.followers[set] {
			if !s.buysIn(f, set, v.domains[spot]) {
				list = append(list, f)
			}
		}
		s.unsoldTo[key] = list
	}
	return list
}

// sameDomains reports whether two places do not differ in what the set is counted by.
func (s *solver) sameDomains(set int, place, other []int32) bool {
	return !slices.ContainsFunc(s.p.Layout.Sets[set].Keys, func(key int) bool { return key >= 0 && place[key] >= 0 && other[key] != place[key] })
}

// buysIn reports whether a dependant has a domain in the same label domains.
func (s *solver) buysIn(f dependant, set int, place []int32) bool {
	s.prepare(f.class, f.level)
	v := s.classes[f.class].levels[f.level].view
	for spot, at := range v.domains {
		if s.sameDomains(set, place, at) {
			if ways := s.narrowed(s.p.Classes[f.class].Levels[f.level].Ways, v, spot); ways != nil {
				if _, ok := s.sellsClass(ways, f.class); ok {
					return true
				}
			}
		}
	}
	return false
}

// hasNode reports whether a dependant has a node in the same label domains.
func (s *solver) hasNode(f dependant, set int, place []int32) bool {
	nodes := s.p.Classes[f.class].Levels[f.level].Nodes
	for n := nodes.Next(0); n >= 0; n = nodes.Next(n + 1) {
		if s.sameDomains(set, place, s.p.Places[s.nodes[n].place]) && s.needs(f.class, n).Fits(s.nodes[n].room) {
			return true
		}
	}
	return false
}
