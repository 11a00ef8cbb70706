package packing

import (
	"cmp"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// offer is a product of types and slots of one group, all of which hold what they have to: a list that one machine can be
// asked for with.
type offer struct {
	group   int
	slots   []int // ascending
	types   []int // cheapest first
	at      map[[2]int]int
	reached []int // different values of each variety
}

// offersOf lists the largest products of the pool's options that hold sum: for every set of slots that some type has, the
// types that have all of them; and the same for each slot alone. None has more types than one machine may list.
func (s *solver) offersOf(d *draft, options bitset.Set, sum capacity.Vector) []*offer {
	sh := &s.pools[d.pool]
	type family struct {
		at    map[[2]int]int
		types []int
		slots map[int]bitset.Set // of each type
	}
	groups := map[int]*family{}
	var order []int
	width := 0
	for _, o := range sh.byPrice {
		width = max(width, sh.Options[o].Slot+1)
	}
	for _, o := range sh.byPrice {
		option := &sh.Options[o]
		if !options.Has(o) || !sum.Fits(option.Allocatable) || !s.suits(d, o) {
			continue
		}
		f := groups[option.Group]
		if f == nil {
			f = &family{at: map[[2]int]int{}, slots: map[int]bitset.Set{}}
			groups[option.Group] = f
			order = append(order, option.Group)
		}
		if f.slots[option.Type] == nil {
			f.types = append(f.types, option.Type)
			f.slots[option.Type] = bitset.New(width)
		}
		if _, seen := f.at[[2]int{option.Type, option.Slot}]; !seen {
			f.at[[2]int{option.Type, option.Slot}] = o
			f.slots[option.Type].Add(option.Slot)
		}
	}
	var out []*offer
	for _, group := range order {
		f := groups[group]
		seen := map[string]bool{}
		try := func(slots bitset.Set) {
			if text := setText(slots); !seen[text] {
				seen[text] = true
				made := &offer{group: group, at: f.at}
				for slot := slots.Next(0); slot >= 0; slot = slots.Next(slot + 1) {
					made.slots = append(made.slots, slot)
				}
				for _, t := range f.types {
					if slots.Within(f.slots[t]) {
						made.types = append(made.types, t)
					}
				}
				made.cut(sh.Variety, s.p.MaxTypes)
				made.reached = made.count(sh.Variety)
				out = append(out, made)
			}
		}
		for _, t := range f.types {
			try(f.slots[t])
		}
		for _, t := range f.types {
			for slot := f.slots[t].Next(0); slot >= 0; slot = f.slots[t].Next(slot + 1) {
				try(bitset.Of(width, slot))
			}
		}
	}
	return out
}

// cut keeps a number of types: first those that add most to what is asked for, then the cheapest. Where a type has one
// value of each variety and one variety is asked for, nothing that is longer than this reaches more.
func (o *offer) cut(varieties []Variety, most int) {
	if len(o.types) <= most {
		return
	}
	kept := &offer{slots: o.slots, at: o.at}
	rest := slices.Clone(o.types)
	for len(kept.types) < most {
		best, gain := 0, 0
		reached := kept.gained(varieties)
		for i, t := range rest {
			with := &offer{slots: o.slots, at: o.at, types: append(slices.Clone(kept.types), t)}
			if n := with.gained(varieties) - reached; n > gain {
				best, gain = i, n
			}
		}
		if gain == 0 {
			break
		}
		kept.types = append(kept.types, rest[best])
		rest = slices.Delete(rest, best, best+1)
	}
	kept.types = append(kept.types, rest[:most-len(kept.types)]...)
	o.types = slices.DeleteFunc(o.types, func(t int) bool { return !slices.Contains(kept.types, t) })
}

// gained adds up how much of each variety the offer has, as far as it is asked for.
func (o *offer) gained(varieties []Variety) int {
	sum := 0
	for i, n := range o.count(varieties) {
		sum += min(n, varieties[i].Min)
	}
	return sum
}

// count counts the different values of each variety in the product.
func (o *offer) count(varieties []Variety) []int {
	out := make([]int, len(varieties))
	for i := range varieties {
		values := map[int]bool{}
		for _, t := range o.types {
			for _, slot := range o.slots {
				if v := varieties[i].Value[o.at[[2]int{t, slot}]]; v >= 0 {
					values[v] = true
				}
			}
		}
		out[i] = len(values)
	}
	return out
}

// meets reports whether the offer has as many values as are wanted.
func (o *offer) meets(wanted []int) bool {
	for i, n := range wanted {
		if o.reached[i] < n {
			return false
		}
	}
	return true
}

// varied reports whether the draft's options would keep the variety that the pool asks for with one more pod. For the
// first pod it settles how much that is.
func (s *solver) varied(d *draft, options bitset.Set, request capacity.Vector) bool {
	sh := &s.pools[d.pool]
	sum := d.sum.Clone()
	sum.Add(request, 1)
	offers := s.offersOf(d, options, sum)
	wanted, relaxed := d.variety, d.relaxed
	if wanted == nil {
		wanted = make([]int, len(sh.Variety))
		for i := range sh.Variety {
			wanted[i] = sh.Variety[i].Min
		}
		if best := s.mostVaried(sh, offers, wanted); best != nil && !best.meets(wanted) {
			for i := range wanted {
				if sh.Variety[i].Soft && best.reached[i] < wanted[i] {
					wanted[i], relaxed = best.reached[i], true
				}
			}
		}
	}
	if !slices.ContainsFunc(offers, func(o *offer) bool { return o.meets(wanted) }) {
		return false
	}
	d.variety, d.relaxed = wanted, relaxed
	return true
}

// mostVaried is the offer that falls short of what is wanted by the least.
func (s *solver) mostVaried(sh *shop, offers []*offer, wanted []int) *offer {
	var best *offer
	least := 0
	for _, o := range offers {
		short := 0
		for i, n := range wanted {
			if missing := max(0, n-o.reached[i]); sh.Variety[i].Soft {
				short += missing
			} else {
				short += 1000 * missing
			}
		}
		if best == nil || short < least {
			best, least = o, short
		}
	}
	return best
}

// cheapestVaried is cheapest for a pool that asks for variety: the option has to be part of an offer that has it. The cloud
// may choose any that is listed, so limits have to leave room for the largest.
func (s *solver) cheapestVaried(d *draft) bool {
	sh := &s.pools[d.pool]
	able := bitset.New(len(sh.Options))
	for _, o := range s.offersOf(d, d.ways, d.sum) {
		if !o.meets(d.variety) {
			continue
		}
		for _, t := range o.types {
			for _, slot := range o.slots {
				able.Add(o.at[[2]int{t, slot}])
			}
		}
	}
	d.bill = nil
	for _, o := range sh.byPrice {
		if !able.Has(o) || !s.affordable(d.pool, o) || !s.slotLeft(d.pool, o) {
			continue
		}
		trial := *d
		trial.option, trial.price = o, sh.Options[o].Price
		if sh.limited {
			if trial.bill = sh.most(s.varietyBox(&trial, 0)); !within(trial.bill, sh.left) {
				continue
			}
		}
		*d = trial
		return true
	}
	return false
}

// most is, of each resource, the most that an option of the list counts against the limits.
func (sh *shop) most(list []int) capacity.Vector {
	out := sh.Options[list[0]].Charge.Clone()
	for _, o := range list[1:] {
		out.Max(sh.Options[o].Charge)
	}
	return out
}

// varietyBox is the list of options for a machine of such a pool: from an offer with the chosen option, the dearest types
// are left out as long as enough is left. Types within the price band stay.
func (s *solver) varietyBox(d *draft, band float64) []int {
	sh := &s.pools[d.pool]
	first := &sh.Options[d.option]
	var best *offer
	for _, o := range s.offersOf(d, d.ways, d.sum) {
		if o.group == first.Group && o.meets(d.variety) && slices.Contains(o.types, first.Type) && slices.Contains(o.slots, first.Slot) &&
			(best == nil || len(o.slots) > len(best.slots)) {
			best = o
		}
	}
	dearest := func(t int) float64 {
		most := 0.0
		for _, slot := range best.slots {
			most = max(most, sh.Options[best.at[[2]int{t, slot}]].Price)
		}
		return most
	}
	types := slices.Clone(best.types)
	slices.SortStableFunc(types, func(a, b int) int { return cmp.Compare(dearest(a), dearest(b)) })
	for i := len(types) - 1; i >= 0; i-- {
		t := types[i]
		if t == first.Type || len(best.types) <= s.p.MaxTypes && dearest(t) <= first.Price*band*(1+1e-12) {
			continue
		}
		without := *best
		without.types = slices.DeleteFunc(slices.Clone(best.types), func(other int) bool { return other == t })
		if without.reached = without.count(sh.Variety); without.meets(d.variety) {
			best = &without
		}
	}
	var listed []int
	for _, t := range best.types {
		for _, slot := range best.slots {
			listed = append(listed, best.at[[2]int{t, slot}])
		}
	}
	s.sortByPrice(sh, listed)
	return listed
}
