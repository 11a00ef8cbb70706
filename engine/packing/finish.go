package packing

import (
	"cmp"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// finish turns the drafts into machines with the options that each may be met with.
func (s *solver) finish() *Solution {
	out := &Solution{OnNodes: s.placed, Left: s.left, Bound: s.bound}
	for _, d := range s.drafts {
		out.New = append(out.New, s.machine(d))
	}
	s.cutToLimits(out.New)
	slices.SortStableFunc(out.New, func(a, b Machine) int {
		return cmp.Or(
			cmp.Compare(a.Pool, b.Pool),
			cmp.Compare(s.price(&b), s.price(&a)),
			cmp.Compare(a.Chosen, b.Chosen),
			slices.CompareFunc(a.Pods, b.Pods, func(x, y Share) int {
				return cmp.Or(cmp.Compare(x.Class, y.Class), cmp.Compare(y.Count, x.Count))
			}))
	})
	return out
}

func (s *solver) price(m *Machine) float64 { return s.pools[m.Pool].Options[m.Chosen].Price }

func (s *solver) machine(d *draft) Machine {
	sh := &s.pools[d.pool]
	slices.SortFunc(d.pods, func(a, b Share) int { return cmp.Compare(a.Class, b.Class) })
	m := Machine{Pool: d.pool, Chosen: d.option, Free: d.free, Pods: d.pods, RunnerUp: -1}
	fitting := bitset.New(len(sh.Options))
	for _, o := range sh.byPrice {
		if d.ways.Has(o) && d.sum.Fits(sh.Options[o].Allocatable) {
			fitting.Add(o)
			m.Fitting++
			if m.RunnerUp < 0 && sh.Options[o].Type != sh.Options[d.option].Type && sh.Options[o].Price >= d.price {
				m.RunnerUp = o
			}
		}
	}
	m.Listed = s.box(sh, fitting, d.option)
	return m
}

// spotTypes is how many types a launch should list where its group asks for a wide choice, and wideBand how far the
// price may go for that.
const (
	wideTypes = 15
	wideBand  = 1.5
)

// box grows the product of types and slots around the chosen option: all its members fit, and cost at most the price
// band more than the cheapest. Slots (zones) come first: they give the most choice at the least price.
func (s *solver) box(sh *shop, fitting bitset.Set, chosen int) []int {
	first := &sh.Options[chosen]
	at := map[[2]int]int{} // (type, slot) -> option
	var typesByPrice []int
	for _, o := range sh.byPrice {
		option := &sh.Options[o]
		if !fitting.Has(o) || option.Group != first.Group || option.Price < first.Price {
			continue
		}
		if _, seen := at[[2]int{option.Type, option.Slot}]; !seen {
			at[[2]int{option.Type, option.Slot}] = o
		}
		if !slices.Contains(typesByPrice, option.Type) {
			typesByPrice = append(typesByPrice, option.Type)
		}
	}
	within := func(o int, band float64) bool { return sh.Options[o].Price <= first.Price*band*(1+1e-12) }
	slots := []int{first.Slot}
	for key, o := range at {
		if key[0] == first.Type && key[1] != first.Slot && within(o, s.p.PriceBand) {
			slots = append(slots, key[1])
		}
	}
	slices.Sort(slots)
	types := []int{first.Type}
	for _, band := range []float64{s.p.PriceBand, wideBand} {
		if band > s.p.PriceBand && (!first.Wide || len(types) >= wideTypes) {
			break
		}
		for _, t := range typesByPrice {
			full := band > s.p.PriceBand && len(types) >= wideTypes
			if full || len(types) >= s.p.MaxTypes || slices.Contains(types, t) {
				continue
			}
			fits := !slices.ContainsFunc(slots, func(slot int) bool {
				o, ok := at[[2]int{t, slot}]
				return !ok || !within(o, band)
			})
			if fits {
				types = append(types, t)
			}
		}
	}
	var listed []int
	for _, t := range types {
		for _, slot := range slots {
			listed = append(listed, at[[2]int{t, slot}])
		}
	}
	s.sortByPrice(sh, listed)
	return listed
}

func (s *solver) sortByPrice(sh *shop, options []int) {
	slices.SortFunc(options, func(a, b int) int {
		return cmp.Or(cmp.Compare(sh.Options[a].Price, sh.Options[b].Price), cmp.Compare(a, b))
	})
}

// cutToLimits shortens lists, the dearest types first, until each pool can pay for the largest listed type of every one
// of its machines: the cloud may choose any of them. The chosen options alone are within the limits.
func (s *solver) cutToLimits(machines []Machine) {
	for p := range s.pools {
		sh := &s.pools[p]
		if !sh.limited {
			continue
		}
		for s.overdrawn(p, machines) && s.dropDearest(p, machines) {
		}
	}
}

// overdrawn reports whether the largest listed types of the pool's machines exceed its limits.
func (s *solver) overdrawn(p int, machines []Machine) bool {
	sh := &s.pools[p]
	left := sh.Pool.Left.Clone()
	for i := range machines {
		if machines[i].Pool == p {
			left.Add(s.largest(&machines[i]), -1)
		}
	}
	for d, n := range left {
		if n < 0 && sh.Pool.Left[d] >= 0 && sh.Pool.Left[d] < capacity.Most {
			return true
		}
	}
	return false
}

// largest is what the machine counts against the limits: of each resource, the most that a listed type has.
func (s *solver) largest(m *Machine) capacity.Vector {
	sh := &s.pools[m.Pool]
	most := sh.Options[m.Chosen].Charge.Clone()
	for _, o := range m.Listed {
		most.Max(sh.Options[o].Charge)
	}
	return most
}

// dropDearest removes, from the machine of the pool that lists the most types, the type that is listed last: its cheapest
// offering is the dearest. It answers false once every machine lists one type only.
func (s *solver) dropDearest(p int, machines []Machine) bool {
	sh := &s.pools[p]
	longest, most := -1, 1
	for i := range machines {
		if machines[i].Pool != p {
			continue
		}
		if n := len(typesOf(sh, machines[i].Listed)); n > most {
			longest, most = i, n
		}
	}
	if longest < 0 {
		return false
	}
	m := &machines[longest]
	types := slices.DeleteFunc(typesOf(sh, m.Listed), func(t int) bool { return t == sh.Options[m.Chosen].Type })
	dearest := types[len(types)-1]
	m.Listed = slices.DeleteFunc(m.Listed, func(o int) bool { return sh.Options[o].Type == dearest })
	return true
}

// typesOf lists the types of the options in the order in which they first appear.
func typesOf(sh *shop, options []int) []int {
	var types []int
	for _, o := range options {
		if t := sh.Options[o].Type; !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}
