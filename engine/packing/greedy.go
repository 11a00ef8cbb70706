package packing

import (
	"math"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// exponents say how much a pod's worth counts beside its shape when a machine is filled; each makes other patterns.
var exponents = [...]float64{0.3, 0.6, 1, 1.5}

// buy places what it can of the remaining pods on new machines of the pools.
func (s *solver) buy(pools []int) {
	if len(s.p.Classes) == 0 {
		return
	}
	m := s.newMarket(pools)
	if len(m.goods) == 0 {
		return
	}
	g := &greedy{s: s, m: m, left: slices.Clone(s.left), exponents: exponents[:]}
	g.run()
	drafts := s.improve(m, g.drafts)
	for c := range s.left {
		placed := s.left[c] - g.left[c]
		s.bound += float64(float64(placed) * worth(s.p.Classes[c].Request, m.u))
		s.left[c] = g.left[c]
	}
	s.drafts = append(s.drafts, drafts...)
}

// greedy buys the machine that gives the most worth for its price, again and again.
type greedy struct {
	s         *solver
	m         *market
	left      []int
	exponents []float64
	skip      func(good int) bool // goods to leave out; nil leaves out none
	drafts    []*draft
	cost      float64 // planning price of the drafts
	ceiling   float64 // give up once the cost reaches it; 0 means never
}

func (g *greedy) run() {
	for {
		best, times := g.bestPattern()
		if best == nil {
			return
		}
		for range times {
			if !g.take(best) {
				break
			}
			if g.ceiling > 0 && g.cost >= g.ceiling {
				return
			}
		}
	}
}

// take adds a copy of the pattern to the drafts, unless the pool's limits forbid it.
func (g *greedy) take(d *draft) bool {
	sh := &g.s.pools[d.pool]
	charge := sh.Options[d.option].Charge
	if sh.limited && !within(charge, sh.left) {
		return false
	}
	if sh.limited {
		sh.left.Add(charge, -1)
	}
	for _, p := range d.pods {
		g.left[p.Class] -= p.Count
	}
	g.cost += d.price + g.m.perNode
	copied := *d
	g.drafts = append(g.drafts, &copied)
	return true
}

// within reports whether the charge is left; unlike Fits it minds every resource, also one that is overdrawn already.
func within(charge, left capacity.Vector) bool {
	for d, n := range charge {
		if n > 0 && n > left[d] {
			return false
		}
	}
	return true
}

// bestPattern fills every promising option in several ways and returns the machine that gives the most worth for its
// price, and how often its pods are there.
func (g *greedy) bestPattern() (*draft, int) {
	var best *draft
	most := 0.0
	for i := range g.m.goods {
		good := &g.m.goods[i]
		if best != nil && good.promise <= most {
			break // sorted by promise
		}
		if g.skip != nil && g.skip(i) {
			continue
		}
		for _, e := range g.exponents {
			d := g.fill(good, e)
			if d == nil {
				break
			}
			if value := g.valueOf(d) / (d.price + g.m.perNode); value > most*(1+1e-9) {
				best, most = d, value
			}
		}
	}
	if best == nil {
		return nil, 0
	}
	times := math.MaxInt
	for _, p := range best.pods {
		times = min(times, g.left[p.Class]/p.Count)
	}
	return best, times
}

func (g *greedy) valueOf(d *draft) float64 {
	sum := 0.0
	for _, p := range d.pods {
		sum += float64(float64(p.Count) * g.m.value[p.Class])
	}
	return sum
}

// fill puts pods on the option until nothing more fits: each time the class whose shape is most like the room that is
// left, and that is worth most. Then it takes the cheapest option that holds them.
func (g *greedy) fill(good *good, exponent float64) *draft {
	s := g.s
	s.effort--
	sh := &s.pools[good.pool]
	option := &sh.Options[good.option]
	room := option.Allocatable.Clone()
	d := &draft{pool: good.pool, sum: make(capacity.Vector, len(room)), free: sh.Free}
	open := slices.Clone(good.classes)
	taken := make([]int, len(open))
	for {
		i := g.pick(good, open, taken, room, d, exponent)
		if i < 0 {
			break
		}
		c := open[i]
		r := s.p.Classes[c].Request
		n := r.Times(room, g.left[c]-taken[i])
		n = (n + 7) / 8
		if !d.join(s.p.Classes[c].Pools[good.pool], good.option) {
			open[i] = -1
			continue
		}
		room.Add(r, -int64(n))
		d.sum.Add(r, int64(n))
		taken[i] += n
	}
	for i, n := range taken {
		if n > 0 {
			d.pods = append(d.pods, Share{good.classes[i], n})
		}
	}
	if len(d.pods) == 0 || !s.cheapest(g.m, d) {
		return nil
	}
	return d
}

// pick returns the index in open of the class to put on next, -1 if none fits.
func (g *greedy) pick(good *good, open, taken []int, room capacity.Vector, d *draft, exponent float64) int {
	a := g.s.pools[good.pool].Options[good.option].Allocatable
	var rest [16]float64
	shape := rest[:0]
	for dim := range room {
		x := 0.0
		if a[dim] > 0 {
			x = good.weight[dim] * float64(room[dim]) / float64(a[dim])
		}
		shape = append(shape, x)
	}
	best, most := -1, 0.0
	for i, c := range open {
		if c < 0 || g.left[c] <= taken[i] {
			continue
		}
		if !g.s.p.Classes[c].Request.Fits(room) {
			open[i] = -1
			continue
		}
		dot := 0.0
		for dim, x := range good.shape[i] {
			dot += float64(x * shape[dim])
		}
		score := dot / good.length[i] * power(g.m.value[c], exponent)
		if score > most || best < 0 {
			best, most = i, score
		}
	}
	return best
}

// power is x to the e, by operations that round alike on every processor.
func power(x, e float64) float64 {
	switch e {
	case 1:
		return x
	case 1.5:
		return x * math.Sqrt(x)
	case 0.6:
		return math.Sqrt(x) * math.Sqrt(math.Sqrt(math.Sqrt(x))) // 0.625, near enough
	case 0.3:
		return math.Sqrt(math.Sqrt(x)) * math.Sqrt(math.Sqrt(math.Sqrt(math.Sqrt(x)))) // 0.3125
	}
	return math.Sqrt(x)
}

// join narrows the draft to what one of the ways leaves, with option still among it. It changes nothing and answers
// false if no way does.
func (d *draft) join(ways []Way, option int) bool {
	for i := range ways {
		way := &ways[i]
		if !way.Options.Has(option) {
			continue
		}
		free, ok := narrow(d.free, way.Free)
		if !ok {
			continue
		}
		d.free = free
		if d.ways == nil {
			d.ways = way.Options.Clone()
		} else {
			d.ways.And(way.Options)
		}
		return true
	}
	return false
}

// narrow intersects sets with by; ok is false if a key is left without a value.
func narrow(sets, by []bitset.Set) (out []bitset.Set, ok bool) {
	out = sets
	copied := false
	for k, set := range by {
		if set == nil || sets[k].Within(set) {
			continue
		}
		if !sets[k].Meets(set) {
			return nil, false
		}
		if !copied {
			out, copied = slices.Clone(sets), true
		}
		out[k] = sets[k].Clone()
		out[k].And(set)
	}
	return out, true
}

// cheapest gives the draft the cheapest option that holds it and that the pool's limits allow.
func (s *solver) cheapest(m *market, d *draft) bool {
	sh := &s.pools[d.pool]
	floor := worth(d.sum, m.u) * (1 - 1e-9) // nothing that holds the pods costs less than they are worth
	from, _ := slices.BinarySearchFunc(sh.byPrice, floor, func(o int, p float64) int {
		if sh.Options[o].Price < p {
			return -1
		}
		return 1
	})
	for _, o := range sh.byPrice[from:] {
		option := &sh.Options[o]
		if d.ways.Has(o) && d.sum.Fits(option.Allocatable) && (!sh.limited || within(option.Charge, sh.left)) {
			d.option, d.price = o, option.Price
			return true
		}
	}
	return false
}
