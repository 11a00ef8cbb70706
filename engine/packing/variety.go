package packing

import (
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// line is the options of one type and one group of a pool: the options of the type that may be listed together.
type line struct {
	group   int
	size    capacity.Vector
	options []int // cheapest first
}

// linesOf sorts the listed options of a pool into lines, and returns the line of each option.
func linesOf(p *Pool, byPrice []int) (lines []line, of []int) {
	known := map[[2]int]int{}
	of = make([]int, len(p.Options))
	for _, o := range byPrice {
		option := &p.Options[o]
		key := [2]int{option.Type, option.Group}
		if _, seen := known[key]; !seen {
			known[key] = len(lines)
			lines = append(lines, line{group: option.Group, size: option.Allocatable})
		}
		of[o] = known[key]
		lines[of[o]].options = append(lines[of[o]].options, o)
	}
	return lines, of
}

// selection describes the options that can be listed for open bins of a pool which may use the same options and need the same numbers of
// values.
type selection struct {
	market   *market
	sh       *supplyPool
	options  bitset.Set
	devices  string // the requested devices
	large    bool
	device   bool
	wanted   []int
	slotsOf  []bitset.Set // of each line, the slots that the open bins may use
	products []*product
	lowered  map[string][]int // of each sum, the result of lower
	seen     [][]int          // of each variety and value, the last round of a tally with it
	round    int
}

// selectionOf returns the selection for the open bin with this sum, these options and these numbers of values.
func (m *market) selectionOf(b *openBin, options bitset.Set, sum capacity.Vector, wanted []int) *selection {
	devices := m.askedDevices(sum)
	if c := b.selection; c != nil && c.market == m && c.large == b.large && c.device == b.device && c.devices == devices && slices.Equal(c.wanted, wanted) && slices.Equal(c.options, options) {
		return c
	}
	key := appendNumbers(make([]byte, 0, 8*(len(options)+len(wanted))+16), b.pool, asInt(b.large), asInt(b.device))
	key = append(appendNumbers(options.AppendText(key), wanted...), devices...)
	if m.selections == nil {
		m.selections = map[string]*selection{}
	}
	c := m.selections[string(key)]
	if c == nil {
		c = m.newSelection(&openBin{pool: b.pool, sum: sum, large: b.large, device: b.device}, options.Clone(), wanted)
		c.devices = devices
		m.selections[string(key)] = c
	}
	return c
}

// askedDevices names the devices that the sum requests.
func (m *market) askedDevices(sum capacity.Vector) string {
	var asked []byte
	for d, device := range m.p.Devices {
		if device && sum[d] > 0 {
			asked = appendNumbers(asked, d)
		}
	}
	return string(asked)
}

func (m *market) newSelection(b *openBin, options bitset.Set, wanted []int) *selection {
	p := &m.pools[b.pool]
	c := &selection{
		market: m, sh: p, options: options, large: b.large, device: b.device, wanted: wanted,
		slotsOf: make([]bitset.Set, len(p.lines)), lowered: map[string][]int{},
	}
	width := 0
	for i := range p.Options {
		width = max(width, p.Options[i].Slot+1)
	}
	groups := map[int][]bitset.Set{}
	var order []int
	for i := range p.lines {
		l := &p.lines[i]
		c.slotsOf[i] = bitset.New(width)
		for _, o := range l.options {
			if options.Has(o) && m.suits(b, o) {
				c.slotsOf[i].Add(p.Options[o].Slot)
			}
		}
		if groups[l.group] == nil {
			order = append(order, l.group)
		}
		groups[l.group] = append(groups[l.group], c.slotsOf[i])
	}
	for _, group := range order {
		c.products = append(c.products, productsOf(c, group, groups[group])...)
	}
	for _, v := range p.Variety {
		c.seen = append(c.seen, make([]int, slices.Max(v.Value)+1))
	}
	m.scan(len(p.Options))
	return c
}

// tight reports whether the types that a variety needs may fill the whole list.
func (c *selection) tight() bool {
	sum := 0
	for _, n := range c.wanted {
		sum += n
	}
	return sum >= c.market.p.MaxTypes
}

// enough reports whether some product is enough for the sum.
func (c *selection) enough(sum capacity.Vector) bool {
	return slices.ContainsFunc(c.products, func(p *product) bool { return p.enough(sum) })
}

// with returns the product with the most slots that has the option and is enough for the sum. It returns nil if there is none.
func (c *selection) with(o int, sum capacity.Vector) *product {
	for _, p := range c.products {
		if p.has(o) && p.enough(sum) {
			return p
		}
	}
	return nil
}

// lower returns how many values of each variety are possible for the sum: the wanted number for hard varieties and, for soft ones, the
// number of the product that misses the fewest values.
func (c *selection) lower(sum capacity.Vector) []int {
	text := sum.Text()
	if known, ok := c.lowered[text]; ok {
		return known
	}
	var best []int
	least := 0
	for _, p := range c.products {
		t := p.tally()
		t.choose(sum, true)
		short := 0
		for i, n := range c.wanted {
			if missing := max(0, n-t.reached[i]); c.sh.Variety[i].Soft {
				short += missing
			} else {
				short += 1000 * missing
			}
		}
		if best == nil || short < least {
			best, least = t.reached, short
		}
	}
	out := slices.Clone(c.wanted)
	for i := range out {
		if best != nil && c.sh.Variety[i].Soft {
			out[i] = min(out[i], best[i])
		}
	}
	c.lowered[text] = out
	return out
}

// varied reports whether the bin's options would keep the pool's variety with one more pod. For the first pod, it decides how many values
// the bin must keep.
func (m *market) varied(b *openBin, options bitset.Set, request capacity.Vector) bool {
	sum := b.sum.Clone()
	sum.Add(request, 1)
	wanted, relaxed := b.variety, b.relaxed
	if wanted == nil {
		wanted = m.pools[b.pool].asked
	}
	c := m.selectionOf(b, options, sum, wanted)
	if !c.enough(sum) {
		if b.variety != nil {
			return false
		}
		if wanted = c.lower(sum); slices.Equal(wanted, c.wanted) {
			return false
		}
		relaxed = true
		if c = m.selectionOf(b, options, sum, wanted); !c.enough(sum) {
			return false
		}
	}
	b.variety, b.relaxed, b.selection = wanted, relaxed, c
	return true
}

// mostVaried returns how many pods, at most n, may join the open bin at once. The first pod has a request of its own; it may join in any
// case.
func (m *market) mostVaried(b *openBin, first, other capacity.Vector, n int) int {
	for ; n > 1; n /= 2 {
		sum := b.sum.Clone()
		sum.Add(first, 1)
		sum.Add(other, int64(n-1))
		if b.selection.enough(sum) {
			return n
		}
	}
	return n
}

// cheapestVaried does the work of cheapest for a pool with a variety: the option has to be in a product with enough values. Limits have to leave room
// for the largest listed option, because the cloud may choose any of them. It returns false if no option is possible.
func (m *market) cheapestVaried(b *openBin, options []int) bool {
	pool := &m.pools[b.pool]
	c := m.selectionOf(b, b.ways, b.sum, b.variety)
	for _, o := range options {
		if !b.ways.Has(o) || !b.sum.Fits(pool.Options[o].Allocatable) || !m.suits(b, o) || !m.affordable(b.pool, o) {
			continue
		}
		p := c.with(o, b.sum)
		if p == nil {
			continue
		}
		b.bill, b.draws = nil, nil
		if pool.limited || c.tight() || len(m.quotas) > 0 {
			list := p.list(o, b.sum, 0)
			if list == nil {
				continue
			}
			if b.bill, b.draws = pool.most(list), pool.mostDraws(list); !within(b.bill, pool.left) || !m.quotasHold(b.draws) {
				continue
			}
		}
		b.option, b.price, b.selection = o, pool.Options[o].Price, c
		return true
	}
	return false
}

// most returns, for each resource, the most that an option of the list uses of the limits.
func (p *supplyPool) most(list []int) capacity.Vector {
	out := p.Options[list[0]].Charge.Clone()
	for _, o := range list[1:] {
		out.Max(p.Options[o].Charge)
	}
	return out
}

// varietyBox returns the list of options for a machine of a pool with a variety: the cheapest types that are enough, and further types
// within the price band.
func (m *market) varietyBox(b *openBin, band float64) []int {
	c := m.selectionOf(b, b.ways, b.sum, b.variety)
	return c.with(b.option, b.sum).list(b.option, b.sum, m.pools[b.pool].Options[b.option].full()*band*(1+1e-12))
}

// appendNumbers appends the numbers as text; different numbers have different texts.
func appendNumbers(text []byte, numbers ...int) []byte {
	for _, n := range numbers {
		for b := range 8 {
			text = append(text, byte(uint64(n)>>(8*b)))
		}
	}
	return text
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
