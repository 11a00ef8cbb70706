package packing

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// market is what the greedy search chooses from: the classes and options of one tier of pools, and what resources are
// worth there.
type market struct {
	pools   []int
	classes []int // classes with pods left that some option of the tier can hold
	goods   []good
	u       []float64 // price of a unit of each resource
	value   []float64 // of one pod of each class (indexed like the problem's classes); never 0
	perNode float64   // added to each machine's price while planning: fewer machines for the same money
}

// good is an option worth starting a machine with: no option that the same classes can use has as much for less.
type good struct {
	pool, option int
	price        float64
	promise      float64 // worth of all its resources per unit of price: no filling is better
	classes      []int
	weight       []float64   // how much each resource counts when shapes are compared
	shape        [][]float64 // of each class: its request as shares of the machine, weighted
	length       []float64   // Euclidean length of each shape
}

func (s *solver) newMarket(pools []int) *market {
	m := &market{pools: pools}
	demand := make(capacity.Vector, len(s.p.Classes[0].Request))
	for c := range s.p.Classes {
		if s.left[c] > 0 && s.sells(pools, c) {
			m.classes = append(m.classes, c)
			demand.Add(s.p.Classes[c].Request, int64(s.left[c]))
		}
	}
	if len(m.classes) == 0 {
		return m
	}
	for _, p := range pools {
		m.goods = append(m.goods, s.goodsOf(p, m.classes)...)
	}
	m.price(s, demand)
	return m
}

// sells reports whether some option of the pools can hold one pod of the class.
func (s *solver) sells(pools []int, c int) bool {
	class := &s.p.Classes[c]
	for _, p := range pools {
		for _, way := range class.Pools[p] {
			for _, o := range s.pools[p].byPrice {
				if way.Options.Has(o) && class.Request.Fits(s.pools[p].Options[o].Allocatable) {
					return true
				}
			}
		}
	}
	return false
}

// goodsOf lists the options of a pool that are worth starting with.
func (s *solver) goodsOf(p int, classes []int) []good {
	sh := &s.pools[p]
	bySignature := map[string][]int{} // kept options of each set of classes
	var goods []good
	for _, o := range sh.byPrice {
		option := &sh.Options[o]
		able, signature := s.usersOf(p, o, classes)
		if len(able) == 0 {
			continue
		}
		if s.dominated(sh, option, bySignature[signature]) {
			continue
		}
		bySignature[signature] = append(bySignature[signature], o)
		goods = append(goods, good{pool: p, option: o, price: option.Price, classes: able})
	}
	return goods
}

// usersOf lists the classes of which one pod fits the option, and the same as text that equal lists share.
func (s *solver) usersOf(p, o int, classes []int) ([]int, string) {
	var able []int
	set := bitset.New(len(classes))
	for i, c := range classes {
		class := &s.p.Classes[c]
		if admits(class.Pools[p], o) && class.Request.Fits(s.pools[p].Options[o].Allocatable) {
			able = append(able, c)
			set.Add(i)
		}
	}
	text := make([]byte, 0, 8*len(set))
	for _, w := range set {
		for b := range 8 {
			text = append(text, byte(w>>(8*b)))
		}
	}
	return able, string(text)
}

func admits(ways []Way, o int) bool {
	for i := range ways {
		if ways[i].Options.Has(o) {
			return true
		}
	}
	return false
}

// dominated reports whether one of the kept options, which all cost no more, has no less of anything.
func (s *solver) dominated(sh *shop, option *Option, kept []int) bool {
	for _, k := range kept {
		other := &sh.Options[k]
		more := true
		for d, n := range option.Allocatable {
			if other.Allocatable[d] < n || other.Charge[d] > option.Charge[d] && sh.left[d] < capacity.Most {
				more = false
				break
			}
		}
		if more {
			return true
		}
	}
	return false
}

// price finds what resources are worth, and what follows from it.
func (m *market) price(s *solver, demand capacity.Vector) {
	options := make([]*Option, len(m.goods))
	for i, g := range m.goods {
		options[i] = &s.pools[g.pool].Options[g.option]
	}
	m.u = prices(demand, options)
	m.perNode = nodeShare * s.unitPrice(m, options)
	least := math.Inf(1)
	for _, o := range options {
		least = min(least, o.Price)
	}
	m.value = make([]float64, len(s.p.Classes))
	for _, c := range m.classes {
		r := s.p.Classes[c].Request
		m.value[c] = worth(r, m.u) + float64(1e-4*least*share(r, demand))
		if m.value[c] <= 0 {
			m.value[c] = 1e-12
		}
	}
	for i := range m.goods {
		m.goods[i].measure(s, m)
	}
	slices.SortStableFunc(m.goods, func(a, b good) int { return cmp.Compare(b.promise, a.promise) })
}

// nodeShare is the part of the price of one core that every machine costs beside its own price while planning. It
// stands for what is in no price list (kubelet, images, addresses) and keeps the search out of the flat country of
// hundreds of tiny machines.
const nodeShare = 0.05

// unitPrice is the price of one unit of the problem's main resource (one core): its dual, or where that is 0 the least
// that any option asks for it.
func (s *solver) unitPrice(m *market, options []*Option) float64 {
	unit := s.p.Unit
	if len(unit) == 0 {
		return 0
	}
	if p := worth(unit, m.u); p > 0 {
		return p
	}
	least := math.Inf(1)
	for _, o := range options {
		if n := unit.Times(o.Allocatable, math.MaxInt32); n > 0 {
			least = min(least, o.Price/float64(n))
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// share is the largest share of the demand that one pod makes up.
func share(r, demand capacity.Vector) float64 {
	most := 0.0
	for d, n := range r {
		if n > 0 && demand[d] > 0 {
			most = max(most, float64(n)/float64(demand[d]))
		}
	}
	return most
}

// measure prepares the comparison of shapes on this option.
func (g *good) measure(s *solver, m *market) {
	a := s.pools[g.pool].Options[g.option].Allocatable
	full := worth(a, m.u)
	if g.price+m.perNode > 0 {
		g.promise = full / (g.price + m.perNode)
	}
	g.weight = make([]float64, len(a))
	for d, n := range a {
		if n <= 0 {
			continue
		}
		g.weight[d] = 0.05
		if full > 0 {
			g.weight[d] += float64(n) * m.u[d] / full
		}
	}
	for _, c := range g.classes {
		r := s.p.Classes[c].Request
		shape := make([]float64, len(a))
		square := 0.0
		for d, n := range r {
			if n > 0 && a[d] > 0 {
				shape[d] = g.weight[d] * float64(n) / float64(a[d])
				square += float64(shape[d] * shape[d])
			}
		}
		g.shape = append(g.shape, shape)
		g.length = append(g.length, max(math.Sqrt(square), 1e-12))
	}
}
