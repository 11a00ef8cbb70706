package packing

import (
	"encoding/binary"
	"math"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/topology"
)

// bound is a lower bound for the price of machines that hold the market's pods, with the prices of resources that prove
// it. It is the dual of a linear program (Gilmore and Gomory 1961 give the idea for cutting stock): buy fractions of
// options and put fractions of pods on those options on which one such pod fits, so that the sums of all requests fit.
//
//	max Σ n·π + N·ν   with   π ≤ r·u(option) where the pod fits,   a(option)·u(option) + ν ≤ price(option),   all ≥ 0
//
// One linear program for all: sums of the bounds of groups of pods are no bound, because groups share machines. A price u
// of an ordinary resource holds for a block of options, those that the same pods may use; a price of a device holds for
// one option, because pods with devices fit the fewest. N is how many machines rules between pods ask for.
type bound struct {
	s       *solver
	m       *market
	wants   []want
	ways    []*Ways
	options []boundOption
	blocks  []block
	dims    []int // ordinary resources that are asked for
	devices []int // devices that are asked for
	step    capacity.Vector
	total   capacity.Vector
	machine int // N
	value   float64
	// u holds the price of each ordinary resource in each block, device that of each device on each option, add is ν.
	u      [][]float64
	device [][]float64
	add    float64
}

// want is a number of equal pods that may use the same options.
type want struct {
	way     int // index of its ways
	request capacity.Vector
	n       int
	blocks  []int
	devices bool
}

type boundOption struct {
	pool, option int
	block        int
	size         capacity.Vector
	price        float64
	column       int // of its first device price, -1 if it has none
}

// block is the options that the same ways admit.
type block struct {
	text string
	ways bitset.Set
}

// mostBlocks bounds the size of the linear program. Further blocks share the prices of the last one: that weakens the
// bound and keeps it a bound.
const mostBlocks = 12

// newBound bounds the price of machines for n pods of each of the market's items.
func (s *solver) newBound(m *market, n []int) *bound {
	b := &bound{s: s, m: m, machine: m.machines(n)}
	b.demand(n)
	b.measure()
	b.supply()
	b.solve()
	b.value = max(b.value, s.apart(m, n))
	return b
}

// demand lists what the pods ask for whatever was settled: settled spots are one way to do it among others. Only what
// every plan has to put into a domain, because of a spread, is held to it.
func (b *bound) demand(counts []int) {
	type key struct{ way, shape int }
	index := map[key]int{}
	ways := map[*Ways]int{}
	add := func(w *Ways, class, n int) {
		if n <= 0 {
			return
		}
		if _, ok := ways[w]; !ok {
			ways[w] = len(b.ways)
			b.ways = append(b.ways, w)
		}
		k := key{ways[w], b.s.shapeOf[class]}
		at, ok := index[k]
		if !ok {
			at = len(b.wants)
			index[k] = at
			b.wants = append(b.wants, want{way: ways[w], request: b.s.own[class]})
		}
		b.wants[at].n += n
	}
	type part struct{ class, level int }
	count := map[part]int{}
	var parts []part
	for i, it := range b.m.items {
		p := part{it.class, it.level}
		if _, ok := count[p]; !ok {
			parts = append(parts, p)
		}
		count[p] += counts[i]
	}
	for _, p := range parts {
		n := count[p]
		for _, fixed := range b.s.fixedShares(p.class, p.level, n) {
			add(fixed.ways, p.class, fixed.n)
			n -= fixed.n
		}
		add(b.s.p.Classes[p.class].Levels[p.level].Ways, p.class, n)
	}
}

type fixedShare struct {
	ways *Ways
	n    int
}

// fixedShares says how many of the n pods of a class every plan has to put into each domain: of k domains that stay
// within a skew of each other, none may have less than (n − (k−1)·skew)/k.
func (s *solver) fixedShares(class, level, n int) []fixedShare {
	c := &s.p.Classes[class]
	rules := c.Levels[level].Rules
	if rules == nil || n != c.Count {
		return nil
	}
	for _, sp := range rules.Spread {
		g := &s.p.Layout.Groups[sp.Group]
		if g.Key == topology.Host || !sp.Self || g.Filter >= 0 || s.members[sp.Group] != 1 || slices.Max(append(g.Count, 0)) > 0 || s.hasResidents(sp.Group) {
			continue
		}
		there := s.world.Count(sp.Group)
		k := 0
		for _, m := range there {
			if m >= 0 {
				k++
			}
		}
		least := (n - (k-1)*sp.MaxSkew + k - 1) / max(k, 1)
		if k < 2 || least <= 0 || least*k > n {
			continue
		}
		v := s.views.of([]int{g.Key})
		var out []fixedShare
		for spot, at := range v.spots {
			if d := at[g.Key]; d >= 0 && there[d] >= 0 {
				if ways := s.narrowed(c.Levels[level].Ways, v, spot); ways != nil {
					out = append(out, fixedShare{ways, least})
				}
			}
		}
		return out
	}
	return nil
}

// measure finds which resources matter and in which steps they are asked for: sums of requests are multiples of that, so
// what an option has beyond a multiple is never used.
func (b *bound) measure() {
	width := len(b.s.p.Classes[0].Request)
	b.step, b.total = make(capacity.Vector, width), make(capacity.Vector, width)
	for _, w := range b.wants {
		b.total.Add(w.request, int64(w.n))
		for d, n := range w.request {
			b.step[d] = gcd(b.step[d], n)
		}
	}
	for d := range width {
		switch {
		case b.total[d] <= 0:
		case d < len(b.s.p.Devices) && b.s.p.Devices[d]:
			b.devices = append(b.devices, d)
		default:
			b.dims = append(b.dims, d)
		}
	}
	for i := range b.wants {
		for _, d := range b.devices {
			b.wants[i].devices = b.wants[i].devices || b.wants[i].request[d] > 0
		}
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// supply lists the options that matter: one that has no less of anything, at no more, stands for the others of its
// block on which the same pods with devices fit.
func (b *bound) supply() {
	kept := map[string][]int{}
	// Most options are beaten, so that what is worked out of each is written over that of the one before.
	users, deviceUsers := bitset.New(len(b.ways)), bitset.New(len(b.wants))
	size := make(capacity.Vector, len(b.total))
	var text []byte
	for _, p := range b.m.pools {
		sh := &b.s.pools[p]
		for _, o := range sh.byPrice {
			clear(users)
			for i, w := range b.ways {
				if admits(w.Pools[p], o) {
					users.Add(i)
				}
			}
			if users.Empty() {
				continue
			}
			clear(deviceUsers)
			for i := range b.wants {
				if w := &b.wants[i]; w.devices && users.Has(w.way) && w.request.Fits(sh.Options[o].Allocatable) {
					deviceUsers.Add(i)
				}
			}
			text = appendSet(text[:0], users)
			at := b.blockOf(users, text)
			b.round(size, sh.Options[o].Allocatable)
			text = appendSet(text, deviceUsers)
			if same := kept[string(text)]; !b.beaten(size, sh.Options[o].Price, same) {
				kept[string(text)] = append(same, len(b.options))
				b.options = append(b.options, boundOption{pool: p, option: o, block: at, size: size.Clone(), price: sh.Options[o].Price, column: -1})
			}
		}
	}
	for i := range b.wants {
		for k := range b.blocks {
			if b.blocks[k].ways.Has(b.wants[i].way) {
				b.wants[i].blocks = append(b.wants[i].blocks, k)
			}
		}
	}
}

// blockOf is the block of options with these users; text is that of the set.
func (b *bound) blockOf(users bitset.Set, text []byte) int {
	for i := range b.blocks {
		if b.blocks[i].text == string(text) {
			return i
		}
	}
	if len(b.blocks) == mostBlocks {
		b.blocks[mostBlocks-1].ways.Or(users)
		return mostBlocks - 1
	}
	b.blocks = append(b.blocks, block{string(text), users.Clone()})
	return len(b.blocks) - 1
}

func setText(s bitset.Set) string { return string(appendSet(make([]byte, 0, 8*len(s)), s)) }

// appendSet writes the set as text that equal sets share.
func appendSet(text []byte, s bitset.Set) []byte {
	for _, w := range s {
		text = binary.LittleEndian.AppendUint64(text, w)
	}
	return text
}

// round writes into out what of the size can be used.
func (b *bound) round(out, size capacity.Vector) {
	for d, n := range size {
		n = max(0, n)
		if b.total[d] > 0 && n > b.total[d] {
			n = b.total[d] // more than all pods together ask for is never used
		}
		if b.step[d] > 1 {
			n -= n % b.step[d]
		}
		out[d] = n
	}
}

// beaten reports whether one of the options costs no more and has no less of anything. Options of other pools may cost more.
func (b *bound) beaten(size capacity.Vector, price float64, kept []int) bool {
	for _, k := range kept {
		have := b.options[k].size
		ok := b.options[k].price <= price
		for _, d := range b.dims {
			ok = ok && have[d] >= size[d]
		}
		for _, d := range b.devices {
			ok = ok && have[d] >= size[d]
		}
		if ok {
			return true
		}
	}
	return false
}

// columns of the linear program: u by block and resource, then w by kind of want and resource (wants that may use several
// blocks), then π of wants with devices, then the devices of each option, then ν.
type columns struct {
	n    int
	w    map[string]int // first column of each set of blocks
	sets []string
	of   map[string][]int // the blocks of each set
	pi   []int            // of each want, -1 if it has none
	add  int
}

func (b *bound) columns() *columns {
	c := &columns{w: map[string]int{}, of: map[string][]int{}, n: len(b.blocks) * len(b.dims), pi: make([]int, len(b.wants))}
	for i := range b.wants {
		w := &b.wants[i]
		c.pi[i] = -1
		if w.devices {
			continue
		}
		if text := blocksText(w.blocks); len(w.blocks) > 1 {
			if _, ok := c.w[text]; !ok {
				c.w[text], c.of[text] = c.n, w.blocks
				c.sets = append(c.sets, text)
				c.n += len(b.dims)
			}
		}
	}
	for i := range b.wants {
		if b.wants[i].devices {
			c.pi[i] = c.n
			c.n++
		}
	}
	for i := range b.options {
		if slices.ContainsFunc(b.devices, func(d int) bool { return b.options[i].size[d] > 0 }) {
			b.options[i].column = c.n
			c.n += len(b.devices)
		}
	}
	c.add = c.n
	c.n++
	return c
}

func blocksText(blocks []int) string {
	text := make([]byte, 0, len(blocks))
	for _, k := range blocks {
		text = append(text, byte(k))
	}
	return string(text)
}

func (b *bound) solve() {
	if len(b.wants) == 0 || len(b.options) == 0 {
		b.extract(nil, nil)
		return
	}
	c := b.columns()
	objective := make([]float64, c.n)
	for i := range b.wants {
		w := &b.wants[i]
		if c.pi[i] >= 0 {
			objective[c.pi[i]] += float64(w.n)
			continue
		}
		first := c.n
		if len(w.blocks) > 1 {
			first = c.w[blocksText(w.blocks)]
		} else if len(w.blocks) == 1 {
			first = w.blocks[0] * len(b.dims)
		}
		for k, d := range b.dims {
			objective[first+k] += float64(w.n) * float64(w.request[d]) / float64(b.total[d])
		}
	}
	objective[c.add] = float64(b.machine)
	var rows [][]float64
	var right []float64
	row := func(rhs float64) []float64 {
		r := make([]float64, c.n)
		rows, right = append(rows, r), append(right, rhs)
		return r
	}
	for i := range b.options {
		o := &b.options[i]
		r := row(o.price)
		for k, d := range b.dims {
			r[o.block*len(b.dims)+k] = float64(o.size[d]) / float64(b.total[d])
		}
		for k, d := range b.devices {
			if o.column >= 0 {
				r[o.column+k] = float64(o.size[d])
			}
		}
		r[c.add] = 1
	}
	for _, text := range c.sets {
		for _, at := range c.of[text] {
			for k := range b.dims {
				r := row(0)
				r[c.w[text]+k], r[at*len(b.dims)+k] = 1, -1
			}
		}
	}
	for i := range b.wants {
		if c.pi[i] < 0 {
			continue
		}
		for j := range b.options {
			if o := &b.options[j]; b.able(&b.wants[i], o) {
				r := row(0)
				r[c.pi[i]] = 1
				for k, d := range b.dims {
					r[o.block*len(b.dims)+k] = -float64(b.wants[i].request[d]) / float64(b.total[d])
				}
				for k, d := range b.devices {
					if o.column >= 0 {
						r[o.column+k] = -float64(b.wants[i].request[d])
					}
				}
			}
		}
	}
	// Prices are brought near one by a power of two, which changes no digit: the answer does not hang on the currency.
	dearest := slices.Max(right)
	_, exponent := math.Frexp(dearest)
	// Rows that end in zero make the simplex method turn in circles: they get a little room, each another. What that gives
	// away is taken back when the prices are read.
	for i := range right {
		if right[i] = math.Ldexp(right[i], -exponent); right[i] == 0 {
			right[i] = 1e-5 * (1 + float64(i*7919%997)/997)
		}
	}
	x := maximise(objective, rows, right, 40*(len(rows)+c.n))
	for i := range x {
		x[i] = math.Ldexp(x[i], exponent)
	}
	b.extract(c, x)
}

func (b *bound) able(w *want, o *boundOption) bool {
	return admits(b.ways[w.way].Pools[o.pool], o.option) && w.request.Fits(b.s.pools[o.pool].Options[o.option].Allocatable)
}
