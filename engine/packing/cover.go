package packing

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine/bound"
	"tenon.sh/engine/capacity"
)

// cover finds the cheapest machines for pods of a few kinds between which there are no rules. What matters then is how many pods of
// each lot have no machine yet, and the shortest way from all to none is sought, a step for each machine (P. E. Hart, N. J. Nilsson and
// B. Raphael, A formal basis for the heuristic determination of minimum cost paths, 1968). At the prices of bound.Fillings no machine
// is worth more than it costs, so that what the pods left are worth never exceeds what they will cost; hardly any step off a
// cheapest way is looked at where that is close.
type cover struct {
	s        *solver
	m        *supply
	lots     []int // those with pods to place, the dearest pods first
	counts   []int
	most     []int     // how many pods of each one machine should have
	worth    []float64 // of one pod
	dear     []float64 // the cheapest machine that holds one
	radix    []uint64
	fillings []filling
	first    [][]int // of each lot, the fillings with pods of it, the best first
	each     float64 // what a machine costs beside its price
	ceiling  float64 // what is known to be enough
	room     float64 // how much more than the floor is tried
	effort   int     // steps so far
	limit    int     // of them
	// floor is what the machines cost at least.
	floor float64
}

// mostCoverLots bounds the lots, mostFillings the fillings of which machines are chosen, and mostCoverSteps the fillings tried on the way.
const (
	mostCoverLots  = 12
	mostFillings   = 4000
	mostCoverSteps = 600_000
)

// tieShare is how much dearer, by share of the cheapest machine, fewer machines may be: prices have so many digits that two are hardly ever equal.
const tieShare = 1e-4

// plain reports whether nothing but room and ways decides what shares a machine, in pools without limits.
func (sup *supply) plain(s *solver) bool {
	return !slices.ContainsFunc(sup.pools, func(p int) bool { return s.pools[p].limited }) && sup.ruleless(s)
}

// ruleless reports whether nothing but room, ways and limits decides what shares a machine.
func (sup *supply) ruleless(s *solver) bool {
	if len(s.p.Quotas) > 0 || slices.ContainsFunc(sup.pools, func(p int) bool { return s.pools[p].Variety != nil }) {
		return false
	}
	return !slices.ContainsFunc(sup.kinds, func(k kind) bool {
		return !k.host.none() || len(k.host.shared) > 0 || slices.ContainsFunc(sup.pools, func(p int) bool {
			ways := k.ways.Pools[p]
			return len(ways) > 1 || len(ways) == 1 && !allNil(ways[0].Free)
		})
	})
}

// covered finds the cheapest machines for the pods of the open bins; ok is false if that takes too much. Floor is what they cost at
// least in any case.
func (s *solver) covered(sup *supply, bins []*openBin) (best []*openBin, floor float64, ok bool) {
	c := &cover{s: s, m: sup}
	if !c.begin(bins) {
		return nil, 0, false
	}
	defer func() { s.scan(c.effort * (len(c.lots) + 4)) }()
	path, ok := []step(nil), c.fill()
	if ok {
		path, ok = c.search()
	}
	// A way that is cheaper by no more than the share of ties is none.
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

// begin counts the pods, and finds what they are worth; it answers false if there are none, or too many kinds of them.
func (c *cover) begin(bins []*openBin) bool {
	count := make([]int, len(c.m.lots))
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
	for i := range c.m.offerings {
		least = min(least, c.m.offerings[i].price)
	}
	c.each = least * tieShare
	c.ceiling += float64(c.each * float64(len(bins)))
	f := c.s.lotsBound(c.m, lots, count, c.each).Fillings(boundSteps)
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
		if l := &c.m.lots[lots[i]]; c.m.apart && l.most > 0 {
			most = min(n, l.most)
		}
		c.lots, c.counts, c.most, c.worth = append(c.lots, lots[i]), append(c.counts, n), append(c.most, most), append(c.worth, f.Worth[i])
		c.radix = append(c.radix, size)
		if size > math.MaxUint64/uint64(n+1) {
			return false
		}
		size *= uint64(n + 1)
	}
	c.limit = min(mostCoverSteps, c.s.effort*Comparisons/(len(c.lots)+4))
	return true
}

// boundSteps is the effort that goes into bound.Fillings.
const boundSteps = 30_000

// lotsBound is the bound for so many pods of the lots, where each machine costs so much beside its price.
func (s *solver) lotsBound(sup *supply, lots, count []int, each float64) *bound.Bound {
	p := bound.Problem{Devices: make([]bool, len(s.p.Classes[0].Request)), Stop: s.p.Stop}
	copy(p.Devices, s.p.Devices)
	for _, lot := range lots {
		l := &sup.lots[lot]
		p.Demands = append(p.Demands, bound.Demand{User: l.kind, Request: sup.shapes[l.shape].whole, Count: count[lot]})
	}
	for i := range sup.offerings {
		g := &sup.offerings[i]
		p.Supplies = append(p.Supplies, bound.Supply{Allocatable: s.pools[g.pool].Options[g.option].Allocatable, Price: g.price + each, Users: g.kinds, Leads: s.leads(sup, g, lots)})
	}
	return bound.Of(&p)
}

// machine is the open bin for the pods of one step.
func (c *cover) machine(st *step) *openBin {
	var loads []load
	for i, n := range st.pods {
		if n > 0 {
			loads = append(loads, load{c.lots[i], n})
		}
	}
	return c.s.binOf(c.m, c.m.offerings[c.fillings[st.filling].offering].pool, loads)
}

// binOf is the open bin of the pool for the pods, nil if no option holds them.
func (s *solver) binOf(sup *supply, pool int, loads []load) *openBin {
	b := &openBin{pool: pool, sum: make(capacity.Vector, len(s.p.Classes[0].Request)), free: s.pools[pool].Free}
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

// prove raises the bound to what the machines of the bins' pods cost at least, if these are all pods, with all ways that they have:
// pods that others have to join may be the reason for machines on which these have room.
func (sup *supply) prove(s *solver, bins []*openBin, floor float64) {
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
