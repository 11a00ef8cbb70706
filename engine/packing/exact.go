package packing

import (
	"math"
	"slices"

	"tenon.sh/engine/bound"
	"tenon.sh/engine/capacity"
)

// fewPods is the number of pods up to which every way to share machines is tried. There are 877 ways to divide 7 pods,
// most of them cut short.
const fewPods = 7

// exact finds the cheapest machines for the pods of the open bins: those of few kinds without rules by way of how many are left of
// each, few with rules by trying everything. Ok is false where that is too much or where limits or quotas make the order matter.
func (s *solver) exact(m *supply, bins []*openBin) (best []*openBin, ok bool) {
	if s.effort > 0 && m.plain(s) {
		best, floor, ok := s.covered(m, bins)
		m.prove(s, bins, floor)
		if ok {
			return best, true
		}
	}
	e := &exhaustive{s: s, m: m, best: bins}
	for _, d := range bins {
		e.bestCost += d.price
		for _, p := range d.loads {
			if len(e.lots)+p.n > fewPods {
				return nil, false
			}
			for range p.n {
				e.lots = append(e.lots, p.lot)
			}
		}
	}
	for _, p := range m.pools {
		if s.pools[p].limited {
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
	s        *solver
	m        *supply
	lots     []int // the lot of each pod, equal ones together
	at       []int // the machine that each pod is on
	best     []*openBin
	bestCost float64
}

// place puts pod i, and those after it, on the machines so far or on a new one.
func (e *exhaustive) place(i int, machines []*openBin, cost float64) {
	if cost > e.bestCost*(1+1e-9) || e.s.effort <= 0 {
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
		first = e.at[i-1] // equal pods go to machines in ascending order
	}
	for j := first; j < len(machines); j++ {
		old := machines[j]
		if d := e.with(old, lot); d != nil {
			machines[j], e.at[i] = d, j
			e.place(i+1, machines, cost-old.price+d.price)
			machines[j] = old
		}
	}
	for _, p := range e.m.pools {
		empty := &openBin{pool: p, sum: make(capacity.Vector, len(e.s.p.Classes[0].Request)), free: e.s.pools[p].Free}
		if d := e.with(empty, lot); d != nil {
			e.at[i] = len(machines)
			e.place(i+1, append(machines, d), cost+d.price)
		}
	}
}

// with is the machine with one more pod on it, nil if no option holds that.
func (e *exhaustive) with(old *openBin, lot int) *openBin {
	e.s.use(1)
	l := &e.m.lots[lot]
	kind := &e.m.kinds[l.kind]
	if !old.accepts(kind.host, e.s.host.nGroups) {
		return nil
	}
	d := e.s.joined(old, kind.ways, kind.host, e.m.shapes[l.shape].whole, l.needsLarge, l.needsDevices)
	if d == nil {
		return nil
	}
	d.host = append(slices.Clip(old.host), kind.host)
	d.loads = slices.Clone(old.loads)
	if n := len(d.loads); n > 0 && d.loads[n-1].lot == lot {
		d.loads[n-1].n++
	} else {
		d.loads = append(d.loads, load{lot, 1})
	}
	return d
}

// joined is the open bin with one more pod, on the cheapest option that holds that; nil if there is none.
func (s *solver) joined(old *openBin, ways *Ways, host *hostRules, request capacity.Vector, large, devices bool) *openBin {
	var best *openBin
	need := lacking(request, host.shared, old.has)
	for i := range ways.Pools[old.pool] {
		way := &ways.Pools[old.pool][i]
		free, ok := narrow(old.free, way.Free)
		if !ok {
			continue
		}
		d := *old
		d.free, d.ways, d.sum = free, way.Options.Clone(), old.sum.Clone()
		if old.ways != nil {
			d.ways.And(old.ways)
		}
		d.large, d.device = d.large || large, d.device || devices
		if s.pools[d.pool].Variety != nil && !s.varied(&d, d.ways, need) {
			continue
		}
		d.sum.Add(need, 1)
		d.has = s.withThings(old.has, host.shared)
		if s.cheapest(&d, s.leastPrice(&d)) && (best == nil || d.price < best.price) {
			best = &d
		}
	}
	return best
}

// leastPrice is no more than any option that holds the open bin costs.
func (s *solver) leastPrice(d *openBin) float64 {
	if len(s.low) == 0 {
		return 0
	}
	return bound.WorthOf(d.sum, s.low)
}

// accepts reports whether the rules of one more pod agree with those of the bin's pods.
func (d *openBin) accepts(r *hostRules, groups int) bool {
	if r.none() && groups == 0 {
		return true
	}
	count, most := make([]int, groups), make([]int, groups)
	for i := range most {
		most[i] = math.MaxInt
	}
	for _, other := range d.host {
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
