package packing

import (
	"cmp"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// listing is the part of a round that chooses the options that each machine may be started with.
type listing struct {
	p        *Problem
	market   *market
	bins     []*openBin
	machines []Machine
	free     func(class int) bool // whether a class has no rules between pods
}

// makeMachines turns the open bins into machines, and lists the options that each may be started with.
func (l *listing) makeMachines(bins []*openBin) {
	l.bins = bins
	l.keepApart()
	// Copies of one pattern share their options.
	type pattern struct {
		sum    *int64
		option int
	}
	known := map[pattern]Machine{}
	for _, b := range l.bins {
		key := pattern{&b.sum[0], b.option}
		m, ok := known[key]
		if !ok {
			m = l.machine(b)
			known[key] = m
		}
		m.Pods, m.Listed = shares(b.pinned), slices.Clone(m.Listed)
		l.machines = append(l.machines, m)
	}
	l.cutToLimits()
	l.cutToQuotas()
}

// finish returns the solution of the round.
func (s *solver) finish() *Solution {
	out := &Solution{OnNodes: s.placement.placed, New: s.listing.machines, Bound: s.search.bound, Worth: s.search.worth, World: s.placement.world, Exhausted: s.exhausted}
	placed := make([][]bool, len(s.p.Classes))
	out.Left = make([][]int, len(s.p.Classes))
	for c := range placed {
		placed[c] = make([]bool, s.p.Classes[c].Count)
	}
	note := func(shares []Share) {
		for _, share := range shares {
			for _, pod := range share.Pods {
				placed[share.Class][pod] = true
			}
		}
	}
	for _, shares := range s.placement.placed {
		note(shares)
	}
	for i := range s.listing.machines {
		note(s.listing.machines[i].Pods)
	}
	for c := range placed {
		for i, ok := range placed[c] {
			if !ok {
				out.Left[c] = append(out.Left[c], i)
			}
		}
	}
	for _, pod := range s.placement.order {
		if placed[pod.Class][pod.Number] {
			out.Order = append(out.Order, pod)
		}
	}
	renumber(s.p, out)
	slices.SortStableFunc(out.New, func(a, b Machine) int {
		return cmp.Or(
			cmp.Compare(a.Pool, b.Pool),
			cmp.Compare(s.market.priceOf(&b), s.market.priceOf(&a)),
			cmp.Compare(a.Chosen, b.Chosen),
			slices.CompareFunc(a.Pods, b.Pods, func(x, y Share) int {
				return cmp.Or(cmp.Compare(x.Class, y.Class), cmp.Compare(len(y.Pods), len(x.Pods)))
			}))
	})
	return out
}

func (l *listing) machine(b *openBin) Machine {
	pool := &l.market.pools[b.pool]
	m := Machine{Pool: b.pool, Chosen: b.option, Free: b.free, RunnerUp: -1, Relaxed: b.relaxed}
	fitting := bitset.New(len(pool.Options))
	for _, o := range pool.byPrice {
		if b.ways.Has(o) && b.sum.Fits(pool.Options[o].Allocatable) && l.market.suits(b, o) {
			fitting.Add(o)
			m.Fitting++
			if m.RunnerUp < 0 && pool.Options[o].Type != pool.Options[b.option].Type && pool.Options[o].Price >= b.price {
				m.RunnerUp = o
			}
		}
	}
	if b.variety != nil {
		m.Listed, m.varied = l.market.varietyBox(b, l.p.PriceBand), true
		m.Chosen = m.Listed[0]
		return m
	}
	m.Listed = l.box(pool, fitting, b)
	return m
}

// shares groups pods by class, in ascending order.
func shares(pods []Pod) []Share {
	sorted := slices.Clone(pods)
	slices.SortFunc(sorted, func(a, b Pod) int { return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Number, b.Number)) })
	var out []Share
	for _, p := range sorted {
		if n := len(out); n == 0 || out[n-1].Class != p.Class {
			out = append(out, Share{Class: p.Class})
		}
		last := &out[len(out)-1]
		last.Pods = append(last.Pods, p.Number)
	}
	return out
}

// wideTypes is the number of types that a launch should list if its options are Wide, and wideBand the price band for them.
const (
	wideTypes = 15
	wideBand  = 1.5
)

// box returns the options that a machine lists: the product of types and slots around the chosen option. All options of the product hold
// the pods, and cost at most the price band times the chosen one. Slots (zones) are added first, because they give the most choice at the
// least price.
func (l *listing) box(pool *supplyPool, fitting bitset.Set, bin *openBin) []int {
	first := &pool.Options[bin.option]
	b := &boxed{sh: pool, first: first, at: map[[2]int]int{}}
	for _, o := range pool.byPrice {
		option := &pool.Options[o]
		if !fitting.Has(o) || option.Group != first.Group {
			continue
		}
		if option.Price < first.Price {
			continue
		}
		key := [2]int{option.Type, option.Slot}
		if _, seen := b.at[key]; !seen {
			b.at[key] = o
		}
		if !slices.Contains(b.byPrice, option.Type) {
			b.byPrice = append(b.byPrice, option.Type)
		}
	}
	b.slots, b.types = []int{first.Slot}, []int{first.Type}
	for _, slot := range b.slotsOf(first.Type) {
		if slot != first.Slot && b.within(first.Type, slot, l.p.PriceBand) {
			b.slots = append(b.slots, slot)
		}
	}
	slices.Sort(b.slots)
	b.grow(l.p.PriceBand, l.p.MaxTypes)
	if first.Wide {
		b.grow(wideBand, min(wideTypes, l.p.MaxTypes))
	}
	var listed []int
	for _, t := range b.types {
		for _, slot := range b.slots {
			listed = append(listed, b.at[[2]int{t, slot}])
		}
	}
	pool.sortByPrice(listed)
	return listed
}

// boxed is a growing product of types and slots.
type boxed struct {
	sh           *supplyPool
	first        *Option
	at           map[[2]int]int // (type, slot) -> option
	byPrice      []int          // types
	slots, types []int
}

func (b *boxed) slotsOf(kind int) []int {
	var slots []int
	for key := range b.at {
		if key[0] == kind {
			slots = append(slots, key[1])
		}
	}
	slices.Sort(slots)
	return slots
}

func (b *boxed) within(kind, slot int, band float64) bool {
	o, ok := b.at[[2]int{kind, slot}]
	return ok && b.sh.Options[o].full() <= b.first.full()*band*(1+1e-12)
}

// grow adds types that have an option within the band in every slot, until there are "most" types.
func (b *boxed) grow(band float64, most int) {
	for _, t := range b.byPrice {
		if len(b.types) >= most {
			return
		}
		if slices.Contains(b.types, t) {
			continue
		}
		if !slices.ContainsFunc(b.slots, func(slot int) bool { return !b.within(t, slot, band) }) {
			b.types = append(b.types, t)
		}
	}
}

func (p *supplyPool) sortByPrice(options []int) {
	slices.SortFunc(options, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.Options[a].Price, p.Options[b].Price), cmp.Compare(a, b))
	})
}

// cutToLimits removes types from lists, the dearest first, until the limits of each pool have room for the largest listed type of every new machine,
// because the cloud may choose any listed type. The chosen options alone are within the limits.
func (l *listing) cutToLimits() {
	for p := range l.market.pools {
		pool := &l.market.pools[p]
		if !pool.limited {
			continue
		}
		for l.market.overdrawn(p, l.machines) && l.market.dropDearest(p, l.machines) {
		}
		if l.market.overdrawn(p, l.machines) {
			l.shorten(p)
		}
	}
}

// overdrawn reports whether the largest listed types of the pool's machines exceed its limits.
func (m *market) overdrawn(p int, machines []Machine) bool {
	pool := &m.pools[p]
	left := pool.Pool.Left.Clone()
	for i := range machines {
		if machines[i].Pool == p {
			left.Add(m.largest(&machines[i]), -1)
		}
	}
	for d, n := range left {
		if n < 0 && pool.Pool.Left[d] >= 0 && pool.Pool.Left[d] < capacity.Most {
			return true
		}
	}
	return false
}

// largest returns the amount that is charged to the limits for the machine: of each resource, the most that any listed option uses.
func (m *market) largest(bought *Machine) capacity.Vector {
	p := &m.pools[bought.Pool]
	most := p.Options[bought.Chosen].Charge.Clone()
	for _, o := range bought.Listed {
		most.Max(p.Options[o].Charge)
	}
	return most
}

// dropDearest removes a type from the machine of the pool that lists the most types: the last one in the list, whose cheapest offering is
// the dearest. It reports false once every machine lists only one type.
func (m *market) dropDearest(p int, machines []Machine) bool {
	pool := &m.pools[p]
	longest, most := -1, 1
	for i := range machines {
		if machines[i].Pool != p || machines[i].varied {
			continue
		}
		if n := len(typesOf(pool, machines[i].Listed)); n > most {
			longest, most = i, n
		}
	}
	if longest < 0 {
		return false
	}
	bought := &machines[longest]
	types := slices.DeleteFunc(typesOf(pool, bought.Listed), func(t int) bool { return t == pool.Options[bought.Chosen].Type })
	dearest := types[len(types)-1]
	bought.Listed = slices.DeleteFunc(bought.Listed, func(o int) bool { return pool.Options[o].Type == dearest })
	return true
}

// shorten cuts the lists of machines with a variety to the types that the variety needs; the limits have room for these.
func (l *listing) shorten(p int) {
	for i := range l.machines {
		if m := &l.machines[i]; m.Pool == p && m.varied {
			m.Listed = l.market.varietyBox(l.bins[i], 0)
			m.Chosen = m.Listed[0]
		}
	}
}

// typesOf returns the types of the options in the order in which they first appear.
func typesOf(p *supplyPool, options []int) []int {
	var types []int
	for _, o := range options {
		if t := p.Options[o].Type; !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}
