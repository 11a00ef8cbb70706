package packing

import (
	"math"
	"slices"

	"tenon.sh/engine/capacity"
)

// fewPods is the number of pods up to which every way to share machines is tried. There are 877 ways to divide 7 pods; most are cut short.
const fewPods = 7

// splitting is a search that tries every way to divide a few pods among machines. It can handle limits, quotas, and pods that have to share a machine
// with certain other pods. It keeps the order in which the pods were placed, because a pod must come after the pods that it has to join.
type splitting struct {
	s     *search
	pools []int
	pods  []*demand // the demand of each pod
	big   []bool    // of each pod: only large options hold it
	fine  []bool    // of each pod: only options with devices hold it
	at    []int     // the machine that each pod is on
	order map[*demand]int

	best     []*openBin
	bestCost float64
}

// split finds the cheapest machines for the few pods of the demands, if more than room decides which pods share a machine. Some of the pods have
// machines already.
func (s *search) split(pools []int, demands []*demand) {
	ruled, total := len(s.p.Quotas) > 0, 0
	for _, p := range pools {
		ruled = ruled || s.market.pools[p].limited || s.market.pools[p].Variety != nil
	}
	for _, d := range demands {
		ruled = ruled || len(d.company) > 0 || !d.host.none() || len(d.host.shared) > 0
		total += len(d.queue)
	}
	if !ruled || total == 0 || total > fewPods {
		return
	}
	if !s.splitMore(pools, demands) {
		s.splitSome(pools, demands, nil)
	}
}

// splitMore looks for machines for the pods that have none yet, one after the other; it reports false if it finds none.
func (s *search) splitMore(pools []int, demands []*demand) bool {
	found := false
	for _, d := range demands {
		for d.left > 0 && s.splitSome(pools, demands, d) {
			found = true
		}
	}
	return found
}

// splitSome finds machines for the pods that have some already and, unless more is nil, for one more pod of this demand. It reports false
// and changes nothing if it finds none or, without a further pod, none that cost less.
func (s *search) splitSome(pools []int, demands []*demand, more *demand) bool {
	g := &splitting{s: s, pools: pools, order: map[*demand]int{}, bestCost: math.Inf(1)}
	for i, it := range demands {
		g.order[it] = i
		big, fine := s.market.special(pools, it)
		n := len(it.queue) - it.left
		if it == more {
			n++
		}
		for range n {
			g.pods, g.big, g.fine = append(g.pods, it), append(g.big, big), append(g.fine, fine)
		}
	}
	cost := 0.0
	for _, b := range s.bins {
		s.market.charge(b, -1)
		cost += b.price
	}
	if more == nil {
		g.bestCost = cost * (1 - 1e-9)
	}
	g.at = make([]int, len(g.pods))
	g.place(0, nil, 0)
	if g.best != nil {
		s.bins = g.best
		if more != nil {
			more.left--
		}
	}
	for _, b := range s.bins {
		s.market.charge(b, 1)
	}
	return g.best != nil
}

// special reports whether a pod of the demand fits only large options, or only options with devices.
func (m *market) special(pools []int, d *demand) (large, devices bool) {
	large, devices = true, true
	for _, p := range pools {
		pool := &m.pools[p]
		for _, o := range pool.byPrice {
			if d.request.Fits(pool.Options[o].Allocatable) && admits(d.ways.Pools[p], o) {
				large, devices = large && pool.Options[o].Large, devices && pool.devices[o]
			}
		}
	}
	return large, devices
}

// place puts pod i, and the pods after it, on the machines so far or on a new one. All these machines are charged.
func (g *splitting) place(i int, machines []*openBin, cost float64) {
	if cost >= g.bestCost || g.s.market.effort <= 0 {
		return
	}
	if i == len(g.pods) {
		g.best, g.bestCost = slices.Clone(machines), cost*(1-1e-9)
		return
	}
	demand, from := g.pods[i], 0
	if i > 0 && g.pods[i-1] == demand {
		from = g.at[i-1] // equal pods are put on machines in ascending order
	}
	for j := from; j < len(machines); j++ {
		old := machines[j]
		if !g.isColocated(i, j) || !old.accepts(demand.host, g.s.host.nGroups) {
			continue
		}
		g.s.market.charge(old, -1)
		if b := g.with(old, i); b != nil {
			g.s.market.charge(b, 1)
			machines[j], g.at[i] = b, j
			g.place(i+1, machines, cost-old.price+b.price)
			machines[j] = old
			g.s.market.charge(b, -1)
		}
		g.s.market.charge(old, 1)
	}
	if len(demand.company) > 0 {
		return
	}
	for _, p := range g.pools {
		empty := &openBin{pool: p, sum: make(capacity.Vector, len(demand.request)), free: g.s.market.pools[p].Free}
		if b := g.with(empty, i); b != nil {
			g.s.market.charge(b, 1)
			g.at[i] = len(machines)
			g.place(i+1, append(machines, b), cost+b.price)
			g.s.market.charge(b, -1)
		}
	}
}

// isColocated reports whether the machine has, of every set that the pod needs there, a pod that is placed before it.
func (g *splitting) isColocated(i, machine int) bool {
	return !slices.ContainsFunc(g.pods[i].company, func(set int) bool {
		for k := range i {
			if g.at[k] == machine && g.order[g.pods[k]] < g.order[g.pods[i]] && slices.Contains(g.pods[k].rules.Sets, set) {
				return false
			}
		}
		return true
	})
}

// with returns the machine with pod i added. It returns nil if no option holds all its pods.
func (g *splitting) with(old *openBin, i int) *openBin {
	g.s.market.use(1)
	demand := g.pods[i]
	b := g.s.joined(old, demand.ways, demand.host, demand.request, g.big[i], g.fine[i])
	if b == nil {
		return nil
	}
	nth := 0
	for k := i - 1; k >= 0 && g.pods[k] == demand; k-- {
		nth++
	}
	b.host = append(slices.Clip(old.host), demand.host)
	b.pinned = append(slices.Clip(old.pinned), Pod{demand.class, demand.queue[nth]})
	return b
}
