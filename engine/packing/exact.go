package packing

import (
	"slices"

	"tenon.sh/engine/capacity"
)

// fewPods is the number of pods up to which every way to share machines is tried. There are 877 ways to divide 7 pods,
// most of them cut short.
const fewPods = 7

// exact finds the cheapest machines for the pods of the drafts by trying everything; ok is false where that is too much
// or where limits make the order matter.
func (s *solver) exact(m *market, drafts []*draft) (best []*draft, ok bool) {
	e := &exhaustive{s: s, m: m, best: drafts}
	for _, d := range drafts {
		e.bestCost += d.price
		for _, p := range d.pods {
			for range p.Count {
				e.pods = append(e.pods, p.Class)
			}
			if len(e.pods) > fewPods {
				return nil, false
			}
		}
	}
	for _, p := range m.pools {
		if s.pools[p].limited {
			return nil, false
		}
	}
	slices.Sort(e.pods)
	e.at = make([]int, len(e.pods))
	e.place(0, nil, 0)
	return e.best, true
}

type exhaustive struct {
	s        *solver
	m        *market
	pods     []int // class of each pod, equal ones together
	at       []int // the machine that each pod is on
	best     []*draft
	bestCost float64
}

// place puts pod i, and those after it, on the machines so far or on a new one.
func (e *exhaustive) place(i int, machines []*draft, cost float64) {
	if cost > e.bestCost*(1+1e-9) || e.s.effort <= 0 {
		return
	}
	if i == len(e.pods) {
		cheaper := cost < e.bestCost*(1-1e-9)
		if cheaper || len(machines) < len(e.best) {
			e.best, e.bestCost = slices.Clone(machines), cost
		}
		return
	}
	class, first := e.pods[i], 0
	if i > 0 && e.pods[i-1] == class {
		first = e.at[i-1] // equal pods go to machines in ascending order
	}
	for j := first; j < len(machines); j++ {
		old := machines[j]
		if d := e.with(old, class); d != nil {
			machines[j], e.at[i] = d, j
			e.place(i+1, machines, cost-old.price+d.price)
			machines[j] = old
		}
	}
	for _, p := range e.m.pools {
		empty := &draft{pool: p, sum: make(capacity.Vector, len(e.s.p.Classes[class].Request)), free: e.s.pools[p].Free}
		if d := e.with(empty, class); d != nil {
			e.at[i] = len(machines)
			e.place(i+1, append(machines, d), cost+d.price)
		}
	}
}

// with is the machine with one more pod on it, nil if no option holds that.
func (e *exhaustive) with(old *draft, class int) *draft {
	e.s.effort--
	c := &e.s.p.Classes[class]
	for i := range c.Pools[old.pool] {
		way := &c.Pools[old.pool][i]
		d := &draft{pool: old.pool, sum: old.sum.Clone(), ways: way.Options.Clone()}
		free, ok := narrow(old.free, way.Free)
		if !ok {
			continue
		}
		d.free = free
		if old.ways != nil {
			d.ways.And(old.ways)
		}
		d.sum.Add(c.Request, 1)
		if !e.s.cheapest(e.m, d) {
			continue
		}
		d.pods = slices.Clone(old.pods)
		if n := len(d.pods); n > 0 && d.pods[n-1].Class == class {
			d.pods[n-1].Count++
		} else {
			d.pods = append(d.pods, Share{class, 1})
		}
		return d
	}
	return nil
}
