package packing

import (
	"cmp"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// product is a set of slots of one group, with the types that have an option in each of these slots: a list that a machine may be started
// with. The product stores which sums of pods leave enough different values: rooms holds the rooms of types that are enough together,
// excess holds sums that are too much for any types. An open bin that grows pod by pod mostly needs answers that are stored already.
type product struct {
	*selection
	group   int
	slots   bitset.Set
	byPrice []*member // nil until it is needed
	rooms   []capacity.Vector
	excess  []capacity.Vector
}

// member is a type of a product.
type member struct {
	line    int
	size    capacity.Vector
	options []int   // one for each slot
	dearest float64 // the highest price of these options
	values  [][]int // the values of each variety
}

// mostSteps bounds the length of rooms and of excess, and mostProducts the sets of slots that are tried; the zones of a real cloud have
// fewer sets.
const (
	mostSteps    = 128
	mostProducts = 64
)

// productsOf returns the products of a group for the slots of each of its types: one for every set of slots that some types have in common,
// the largest set first.
func productsOf(c *selection, group int, slots []bitset.Set) (out []*product) {
	known := map[string]bool{}
	var sets []bitset.Set
	add := func(set bitset.Set) {
		if text := string(set.AppendText(nil)); !known[text] && !set.Empty() {
			known[text] = true
			sets = append(sets, set)
		}
	}
	for _, set := range slots {
		add(set)
	}
	for i := 0; i < len(sets) && len(sets) < mostProducts; i++ {
		for j := 0; j < i && len(sets) < mostProducts; j++ {
			both := sets[i].Clone()
			both.And(sets[j])
			add(both)
		}
	}
	for _, set := range sets {
		out = append(out, &product{selection: c, group: group, slots: set})
	}
	slices.SortStableFunc(out, func(a, b *product) int { return cmp.Compare(b.slots.Len(), a.slots.Len()) })
	return out
}

// members returns the types of the product, the cheapest first.
func (p *product) members() []*member {
	if p.byPrice != nil {
		return p.byPrice
	}
	for i := range p.sh.lines {
		if l := &p.sh.lines[i]; l.group == p.group && p.slots.Within(p.slotsOf[i]) {
			p.byPrice = append(p.byPrice, p.member(i))
		}
	}
	slices.SortStableFunc(p.byPrice, func(a, b *member) int { return cmp.Compare(a.dearest, b.dearest) })
	return p.byPrice
}

func (p *product) member(at int) *member {
	l := &p.sh.lines[at]
	m := &member{line: at, size: l.size, values: make([][]int, len(p.sh.Variety))}
	taken := bitset.New(64 * len(p.slots))
	for _, o := range l.options {
		option := &p.sh.Options[o]
		if !p.slots.Has(option.Slot) || taken.Has(option.Slot) || !p.options.Has(o) {
			continue
		}
		taken.Add(option.Slot)
		m.options = append(m.options, o)
		m.dearest = max(m.dearest, option.full())
		for i := range p.sh.Variety {
			if v := p.sh.Variety[i].Value[o]; v >= 0 && !slices.Contains(m.values[i], v) {
				m.values[i] = append(m.values[i], v)
			}
		}
	}
	return m
}

// has reports whether the option is in the product.
func (p *product) has(o int) bool {
	option := &p.sh.Options[o]
	return option.Group == p.group && p.slots.Has(option.Slot) && p.slots.Within(p.slotsOf[p.sh.lineOf[o]])
}

// enough reports whether the types that hold the sum have enough different values.
func (p *product) enough(sum capacity.Vector) bool {
	for _, room := range p.rooms {
		if sum.Fits(room) {
			return true
		}
	}
	for _, least := range p.excess {
		if least.Fits(sum) {
			return false
		}
	}
	t := p.tally()
	if t.choose(sum, true) {
		room := t.chosen[0].size.Clone()
		for _, m := range t.chosen[1:] {
			room.Min(m.size)
		}
		p.rooms = remember(p.rooms, room)
		return true
	}
	p.excess = remember(p.excess, p.leastExcess(sum))
	return false
}

func remember(steps []capacity.Vector, step capacity.Vector) []capacity.Vector {
	if len(steps) == mostSteps {
		return steps
	}
	return append(steps, step)
}

// leastExcess lowers, as far as possible, a sum that is too much: resources that do not matter become 0, and each other resource becomes
// just more than the next smaller types have.
func (p *product) leastExcess(sum capacity.Vector) capacity.Vector {
	least := sum.Clone()
	for d, n := range least {
		if n <= 0 {
			continue
		}
		least[d] = 0
		if p.tally().choose(least, true) {
			least[d] = n
		}
	}
	for d, n := range least {
		below := int64(0)
		for _, m := range p.members() {
			if m.size[d] < n {
				below = max(below, m.size[d])
			}
		}
		if n > 0 {
			least[d] = below + 1
		}
	}
	return least
}

// list returns the options of the type of o, of the cheapest types that hold the sum and make the values enough, and of further types that
// cost at most price, up to the greatest length of a list. It is nil if the values are not enough.
func (p *product) list(o int, sum capacity.Vector, price float64) []int {
	t := p.tally()
	for _, m := range p.members() {
		if m.line == p.sh.lineOf[o] {
			t.take(m)
		}
	}
	if !t.choose(sum, false) {
		return nil
	}
	for _, m := range p.members() {
		if !t.full() && m.dearest <= price && sum.Fits(m.size) && !slices.Contains(t.chosen, m) {
			t.chosen = append(t.chosen, m)
		}
	}
	var out []int
	for _, m := range t.chosen {
		out = append(out, m.options...)
	}
	p.sh.sortByPrice(out)
	return out
}

// tally counts the different values of some types of a product.
type tally struct {
	p       *product
	chosen  []*member
	reached []int // different values of each variety
}

func (p *product) tally() *tally {
	p.round++
	return &tally{p: p, reached: make([]int, len(p.wanted))}
}

// met reports whether no value is missing and at least one type is chosen.
func (t *tally) met() bool { return len(t.chosen) > 0 && t.missing() == 0 }

// missing returns how many values are missing.
func (t *tally) missing() int {
	sum := 0
	for i, n := range t.p.wanted {
		sum += max(0, n-t.reached[i])
	}
	return sum
}

// gain returns how many of the missing values the type has.
func (t *tally) gain(m *member) int {
	sum := 0
	for i, values := range m.values {
		missing := t.p.wanted[i] - t.reached[i]
		for _, v := range values {
			if missing > 0 && t.p.seen[i][v] != t.p.round {
				missing--
				sum++
			}
		}
	}
	return sum
}

func (t *tally) take(m *member) {
	t.chosen = append(t.chosen, m)
	for i, values := range m.values {
		for _, v := range values {
			if t.p.seen[i][v] != t.p.round {
				t.p.seen[i][v] = t.p.round
				t.reached[i]++
			}
		}
	}
}

// choose adds types that hold the sum and have a missing value, until no value is missing. It takes the dearest types first, because they
// hold the most, or the cheapest first. If that takes too many types, choose begins again with the types that have the most missing values. It
// reports false if values are missing in the end.
func (t *tally) choose(sum capacity.Vector, dearest bool) bool {
	start := slices.Clone(t.chosen)
	if t.add(sum, dearest, 1); t.met() || !t.full() {
		return t.met()
	}
	*t = *t.p.tally()
	for _, m := range start {
		t.take(m)
	}
	for least := t.most(sum); least > 0 && !t.full(); least = t.most(sum) {
		t.add(sum, dearest, least)
	}
	return t.met()
}

func (t *tally) full() bool { return len(t.chosen) >= t.p.market.p.MaxTypes }

// most returns the greatest number of missing values that a type which holds the sum has.
func (t *tally) most(sum capacity.Vector) int {
	most := 0
	for _, m := range t.p.members() {
		if sum.Fits(m.size) {
			most = max(most, t.gain(m))
		}
	}
	t.p.market.scan(len(t.p.members()))
	return most
}

// add visits the types in order of price, the dearest first if dearest is true. It adds each type that has at least `least` of the values that are
// still missing.
func (t *tally) add(sum capacity.Vector, dearest bool, least int) {
	members := t.p.members()
	for i := range members {
		m := members[i]
		if dearest {
			m = members[len(members)-1-i]
		}
		if t.met() || t.full() {
			t.p.market.scan(i)
			return
		}
		if sum.Fits(m.size) && (t.gain(m) >= least || t.missing() == 0) {
			t.take(m)
		}
	}
	t.p.market.scan(len(members))
}
