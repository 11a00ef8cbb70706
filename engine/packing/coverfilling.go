package packing

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// filling is a set of pods that one offering holds, with no room for another of the pods to place.
type filling struct {
	offering int
	pods     []int // the number of pods of each lot
	price    float64
	loss     float64    // price less the worth of the pods
	lead     bitset.Set // the offering is bought only for a pod of one of these lots; nil for any lot
}

// fill lists the fillings that may be part of cheaper machines than the best so far; it reports false if there are too many.
func (c *coverSearch) fill() bool {
	c.dear = slices.Repeat([]float64{math.Inf(1)}, len(c.lots))
	for i := range c.sup.offerings {
		f := filler{c: c, offering: i, pods: make([]int, len(c.lots))}
		if f.start(); !f.fill(0, c.ceiling-c.floor-f.price) {
			return false
		}
	}
	slices.SortStableFunc(c.fillings, func(a, b filling) int {
		return cmp.Or(cmp.Compare(a.price, b.price), -slices.Compare(a.pods, b.pods))
	})
	var kept []filling
	for i := range c.fillings {
		f := &c.fillings[i]
		if !slices.ContainsFunc(kept, func(k filling) bool { return k.lead == nil && among(f.pods, k.pods) }) {
			kept = append(kept, *f)
		}
		if c.effort += len(kept) / 4; c.effort > c.limit {
			return false
		}
	}
	c.fillings = kept
	slices.SortStableFunc(c.fillings, func(a, b filling) int { return cmp.Compare(a.loss, b.loss) })
	c.first = make([][]int, len(c.lots))
	for i := range c.fillings {
		for j, n := range c.fillings[i].pods {
			if n > 0 {
				c.first[j] = append(c.first[j], i)
			}
		}
	}
	return true
}

// among reports whether a has no more pods of any lot than b.
func among(a, b []int) bool {
	for i, n := range a {
		if n > b[i] {
			return false
		}
	}
	return true
}

// filler lists the fillings of one offering.
type filler struct {
	c        *coverSearch
	offering int
	price    float64
	room     capacity.Vector
	pods     []int
	open     []int // the lots that may use the offering
	lead     bitset.Set
}

// start finds the lots that may use the offering; open stays empty if there are none.
func (f *filler) start() {
	c, g := f.c, &f.c.sup.offerings[f.offering]
	option := &c.s.market.pools[g.pool].Options[g.option]
	f.price, f.room = g.price+c.each, option.Allocatable.Clone()
	if f.lead = c.s.leads(c.sup, g, c.lots); f.lead != nil && f.lead.Empty() {
		return
	}
	for i, lot := range c.lots {
		l := &c.sup.lots[lot]
		if g.kinds.Has(l.kind) && c.sup.shapes[l.shape].whole.Fits(option.Allocatable) {
			f.open = append(f.open, i)
		}
	}
	for _, i := range f.open {
		c.dear[i] = min(c.dear[i], f.price)
	}
}

// fill tries all numbers of pods of the k-th open lot and of those after it. slack is ceiling − floor − price plus the worth of the pods so
// far; it must not be negative in the end. fill reports false once there are too many fillings.
func (f *filler) fill(k int, slack float64) bool {
	c := f.c
	if k == len(f.open) {
		return slack < 0 || len(f.open) == 0 || f.keep()
	}
	if c.effort++; c.effort > c.limit {
		return false
	}
	can := 0.0
	for _, i := range f.open[k:] {
		can += float64(float64(f.request(i).Times(f.room, c.most[i])) * c.worth[i])
	}
	if slack+can < 0 {
		return true
	}
	i := f.open[k]
	r := f.request(i)
	most := r.Times(f.room, c.most[i])
	f.room.Add(r, -int64(most))
	ok := true
	for n := most; n >= 0; n-- {
		f.pods[i] = n
		ok = ok && f.fill(k+1, slack+float64(float64(n)*c.worth[i]))
		if n > 0 {
			f.room.Add(r, 1)
		}
		if k == len(f.open)-1 && n > 0 { // with fewer pods of the last lot, another pod would fit
			f.room.Add(r, int64(n-1))
			break
		}
	}
	f.pods[i] = 0
	return ok
}

// leads returns, as indexes into lots, the lots for whose pods the offering may be bought; nil for all.
func (s *search) leads(sup *supply, g *offering, lots []int) bitset.Set {
	p := &s.market.pools[g.pool]
	option := &p.Options[g.option]
	if !option.Large && !p.devices[g.option] {
		return nil
	}
	out := bitset.New(len(lots))
	for i, lot := range lots {
		l := &sup.lots[lot]
		r := sup.shapes[l.shape].whole
		if g.kinds.Has(l.kind) && r.Fits(option.Allocatable) && (!option.Large || l.needsLarge) && (!p.devices[g.option] || l.needsDevices || s.market.asksFor(r, p, g.option)) {
			out.Add(i)
		}
	}
	return out
}

func (f *filler) request(i int) capacity.Vector {
	return f.c.sup.shapes[f.c.sup.lots[f.c.lots[i]].shape].whole
}

// keep stores the filling, unless one more pod fits or the offering may not be bought for these pods; it reports false if there are too
// many fillings.
func (f *filler) keep() bool {
	c := f.c
	some, led := false, f.lead == nil
	for _, i := range f.open {
		if f.pods[i] < c.most[i] && f.request(i).Fits(f.room) {
			return true
		}
		some = some || f.pods[i] > 0
		led = led || f.pods[i] > 0 && f.lead.Has(i)
	}
	if !some || !led {
		return true
	}
	worth := 0.0
	for i, n := range f.pods {
		worth += float64(float64(n) * c.worth[i])
	}
	c.fillings = append(c.fillings, filling{f.offering, slices.Clone(f.pods), f.price, f.price - worth, f.lead})
	return len(c.fillings) <= mostFillings
}

// coverSearch is a search for the cheapest machines for pods of a few kinds without rules between them. For these pods, only the number of pods of each lot
// that have no machine matters. The search looks for the shortest path from all pods to none, with one step for each machine (P. E. Hart, N. J.
// Nilsson and B. Raphael, A formal basis for the heuristic determination of minimum cost paths, 1968). At the prices of bound.Fillings, the pods of a
// machine are never worth more than the machine costs, so the worth of the remaining pods is never above the price of their machines. If this worth
// is close to that price, the search tries hardly any step off a cheapest path.
type coverSearch struct {
	s        *search
	sup      *supply
	lots     []int // the lots with pods to place, the dearest pods first
	counts   []int
	most     []int     // of each lot, the greatest number of pods that one machine should have
	worth    []float64 // of one pod of each lot
	dear     []float64 // of each lot, the price of the cheapest machine that holds a pod
	radix    []uint64
	fillings []filling
	first    [][]int // of each lot, the fillings with pods of it, the best first
	each     float64 // added to the price of each machine
	ceiling  float64 // the cost of the best machines so far
	room     float64 // the amount by which a path may cost more than the floor in the next try
	effort   int     // steps so far
	limit    int     // the most steps
	// floor is the least possible cost of the machines.
	floor float64
}

// mostCoverLots bounds the lots, mostFillings the fillings from which machines are chosen, and mostCoverSteps the steps of the search.
const (
	mostCoverLots  = 12
	mostFillings   = 4000
	mostCoverSteps = 600_000
)
