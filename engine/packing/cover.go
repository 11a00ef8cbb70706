package packing

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine/bound"
	"tenon.sh/engine/capacity"
)

// tieShare is the share of the cheapest machine's price that is added to each machine: of plans that cost about the same, the one with
// fewer machines is cheaper. Prices have so many digits that two plans hardly ever cost exactly the same.
const tieShare = 1e-4

// plain reports whether only room and ways decide which pods share a machine, in pools without limits.
func (sup *supply) plain(s *search) bool {
	return !slices.ContainsFunc(sup.pools, func(p int) bool { return s.market.pools[p].limited }) && sup.ruleless(s)
}

// ruleless reports whether only room, ways and limits decide which pods share a machine.
func (sup *supply) ruleless(s *search) bool {
	if len(s.p.Quotas) > 0 || slices.ContainsFunc(sup.pools, func(p int) bool { return s.market.pools[p].Variety != nil }) {
		return false
	}
	return !slices.ContainsFunc(sup.kinds, func(k kind) bool {
		return !k.host.none() || len(k.host.shared) > 0 || slices.ContainsFunc(sup.pools, func(p int) bool {
			ways := k.ways.Pools[p]
			return len(ways) > 1 || len(ways) == 1 && !allNil(ways[0].Free)
		})
	})
}

// cover finds the cheapest machines for the pods of the open bins, if only room decides which pods share a machine. done is false if there are too
// many kinds of pods, or if the search takes too much effort.
func (s *search) cover(sup *supply, bins []*openBin) (best []*openBin, done bool) {
	if s.market.effort <= 0 || !sup.plain(s) {
		return bins, false
	}
	best, floor, ok := s.covered(sup, bins)
	sup.prove(s, bins, floor)
	if !ok {
		return bins, false
	}
	return best, true
}

// covered does the search for the method `cover`. floor is the least possible cost of the machines.
func (s *search) covered(sup *supply, bins []*openBin) (best []*openBin, floor float64, ok bool) {
	c := &coverSearch{s: s, sup: sup}
	if !c.begin(bins) {
		return nil, 0, false
	}
	defer func() { s.market.scan(c.effort * (len(c.lots) + 4)) }()
	path, ok := []step(nil), c.fill()
	if ok {
		path, ok = c.search()
	}
	// c.floor includes c.each for every machine, which is at most tieShare of its price.
	floor = c.floor / (1 + tieShare)
	if !ok || path == nil {
		return bins, floor, ok
	}
	for _, st := range path {
		b := c.machine(&st)
		if b == nil {
			return nil, floor, false
		}
		best = append(best, b)
	}
	return best, floor, true
}

// begin counts the pods, and finds their worth; it reports false if there are no pods, or too many lots.
func (c *coverSearch) begin(bins []*openBin) bool {
	count := make([]int, len(c.sup.lots))
	for _, bin := range bins {
		c.ceiling += bin.price
		for _, p := range bin.loads {
			count[p.lot] += p.n
		}
	}
	var lots []int
	for lot, n := range count {
		if n > 0 {
			lots = append(lots, lot)
		}
	}
	if len(lots) == 0 || len(lots) > mostCoverLots {
		return false
	}
	least := math.Inf(1)
	for i := range c.sup.offerings {
		least = min(least, c.sup.offerings[i].price)
	}
	c.each = least * tieShare
	c.ceiling += float64(c.each * float64(len(bins)))
	f := c.s.lotsBound(c.sup, lots, count, c.each).Fillings(boundSteps)
	if f == nil {
		return false
	}
	c.floor = f.Value
	order := make([]int, len(lots))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(f.Worth[b], f.Worth[a]) })
	size := uint64(1)
	for _, i := range order {
		n := count[lots[i]]
		most := n
		if l := &c.sup.lots[lots[i]]; c.sup.apart && l.most > 0 {
			most = min(n, l.most)
		}
		c.lots, c.counts, c.most, c.worth = append(c.lots, lots[i]), append(c.counts, n), append(c.most, most), append(c.worth, f.Worth[i])
		c.radix = append(c.radix, size)
		if size > math.MaxUint64/uint64(n+1) {
			return false
		}
		size *= uint64(n + 1)
	}
	c.limit = min(mostCoverSteps, c.s.market.effort*Comparisons/(len(c.lots)+4))
	return true
}

// boundSteps is the effort that bound.Fillings may spend.
const boundSteps = 30_000

// lotsBound returns the bound for count[lot] pods of each of the lots, if each machine costs `each` more than its price.
func (s *search) lotsBound(sup *supply, lots, count []int, each float64) *bound.Bound {
	p := bound.Problem{Devices: make([]bool, len(s.p.Classes[0].Request)), Stop: s.p.Stop}
	copy(p.Devices, s.p.Devices)
	for _, lot := range lots {
		l := &sup.lots[lot]
		p.Demands = append(p.Demands, bound.Demand{User: l.kind, Request: sup.shapes[l.shape].whole, Count: count[lot]})
	}
	for i := range sup.offerings {
		g := &sup.offerings[i]
		p.Supplies = append(p.Supplies, bound.Supply{Allocatable: s.market.pools[g.pool].Options[g.option].Allocatable, Price: g.price + each, Users: g.kinds, Leads: s.leads(sup, g, lots)})
	}
	return bound.Of(&p)
}

// machine returns a new open bin with the pods of the step.
func (c *coverSearch) machine(st *step) *openBin {
	var loads []load
	for i, n := range st.pods {
		if n > 0 {
			loads = append(loads, load{c.lots[i], n})
		}
	}
	return c.s.binOf(c.sup, c.sup.offerings[c.fillings[st.filling].offering].pool, loads)
}

// binOf returns the open bin of the pool for the pods. It returns nil if no option holds them.
func (s *search) binOf(sup *supply, pool int, loads []load) *openBin {
	b := &openBin{pool: pool, sum: make(capacity.Vector, len(s.p.Classes[0].Request)), free: s.market.pools[pool].Free}
	for _, p := range loads {
		l := &sup.lots[p.lot]
		request := make(capacity.Vector, len(b.sum))
		request.Add(sup.shapes[l.shape].whole, int64(p.n))
		kind := &sup.kinds[l.kind]
		if b = s.joined(b, kind.ways, kind.host, request, l.needsLarge, l.needsDevices); b == nil {
			return nil
		}
	}
	b.loads = loads
	return b
}

// prove raises the supply's bound to floor, the least possible cost of machines for the bins' pods. It does so only if the bins hold all pods of the
// supply, with all their ways, and no pods have to share a machine with certain others. The machines of such pods may have room for the bins' pods.
func (sup *supply) prove(s *search, bins []*openBin, floor float64) {
	if sup.apart || floor <= sup.bound.Value || slices.ContainsFunc(s.demands, func(it *demand) bool { return len(it.company) > 0 }) {
		return
	}
	placed := 0
	for _, b := range bins {
		for _, p := range b.loads {
			placed += p.n
		}
	}
	for i, it := range sup.demands {
		if it.ways != s.p.Classes[it.class].Levels[it.level].Ways {
			return
		}
		placed -= sup.before[i]
	}
	if placed == 0 {
		sup.bound.Value = floor
	}
}
