package packing

import (
	"math"
	"slices"

	"tenon.sh/engine/bound"
	"tenon.sh/engine/capacity"
)

// fewPods is the number of pods up to which every way to share machines is tried. There are 877 ways to divide 7 pods; most are cut short.
const fewPods = 7

// exact finds the cheapest machines for the pods of the open bins. For few lots without rules or limits, it searches by the number of pods
// of each lot without a machine (cover); for few pods without limits and quotas, it tries everything. ok is false if neither is possible.
func (s *search) exact(sup *supply, bins []*openBin) (best []*openBin, ok bool) {
	if s.market.effort > 0 && sup.plain(s) {
		best, floor, ok := s.covered(sup, bins)
		sup.prove(s, bins, floor)
		if ok {
			return best, true
		}
	}
	e := &exhaustive{s: s, sup: sup, best: bins}
	for _, b := range bins {
		e.bestCost += b.price
		for _, p := range b.loads {
			if len(e.lots)+p.n > fewPods {
				return nil, false
			}
			for range p.n {
				e.lots = append(e.lots, p.lot)
			}
		}
	}
	for _, p := range sup.pools {
		if s.market.pools[p].limited {
			return nil, false
		}
	}
	if len(s.p.Quotas) > 0 {
		return nil, false
	}
	slices.Sort(e.lots)
	e.at = make([]int, len(e.lots))
	e.place(0, nil, 0)
	return e.best, true
}

type exhaustive struct {
	s        *search
	sup      *supply
	lots     []int // the lot of each pod; pods of one lot are neighbours
	at       []int // the machine that each pod is on
	best     []*openBin
	bestCost float64
}

// place puts pod i, and the pods after it, on the machines so far or on a new one.
func (e *exhaustive) place(i int, machines []*openBin, cost float64) {
	if cost > e.bestCost*(1+1e-9) || e.s.market.effort <= 0 {
		return
	}
	if i == len(e.lots) {
		cheaper := cost < e.bestCost*(1-1e-9)
		if cheaper || len(machines) < len(e.best) {
			e.best, e.bestCost = slices.Clone(machines), cost
		}
		return
	}
	lot, first := e.lots[i], 0
	if i > 0 && e.lots[i-1] == lot {
		first = e.at[i-1] // equal pods are put on machines in ascending order
	}
	for j := first; j < len(machines); j++ {
		old := machines[j]
		if b := e.with(old, lot); b != nil {
			machines[j], e.at[i] = b, j
			e.place(i+1, machines, cost-old.price+b.price)
			machines[j] = old
		}
	}
	for _, p := range e.sup.pools {
		empty := &openBin{pool: p, sum: make(capacity.Vector, len(e.s.p.Classes[0].Request)), free: e.s.market.pools[p].Free}
		if b := e.with(empty, lot); b != nil {
			e.at[i] = len(machines)
			e.place(i+1, append(machines, b), cost+b.price)
		}
	}
}

// with returns the machine with one more pod of the lot. It returns nil if no option holds all its pods.
func (e *exhaustive) with(old *openBin, lot int) *openBin {
	e.s.market.use(1)
	l := &e.sup.lots[lot]
	kind := &e.sup.kinds[l.kind]
	if !old.accepts(kind.host, e.s.host.nGroups) {
		return nil
	}
	b := e.s.joined(old, kind.ways, kind.host, e.sup.shapes[l.shape].whole, l.needsLarge, l.needsDevices)
	if b == nil {
		return nil
	}
	b.host = append(slices.Clip(old.host), kind.host)
	b.loads = slices.Clone(old.loads)
	if n := len(b.loads); n > 0 && b.loads[n-1].lot == lot {
		b.loads[n-1].n++
	} else {
		b.loads = append(b.loads, load{lot, 1})
	}
	return b
}

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
