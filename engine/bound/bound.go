// Package bound computes a lower bound for the price of machines that hold a set of pods, and the prices of resources that prove it. Its input is a
// set of demands (numbers of pods with their requests), supplies (machines that can be bought) and the supplies that each demand may use.
package bound

import (
	"math"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// Problem holds the demands for machines and the supplies that can be bought. All vectors have the same length.
type Problem struct {
	Demands []Demand
	// Supplies lists the machines that can be bought, in any number. Of equal supplies the first is kept, so the cheapest should come first.
	Supplies []Supply
	// Existing lists machines that exist already, and cost nothing. Only Fillings uses it.
	Existing []Existing
	// Devices marks the resources that only few machines have, for example GPUs.
	Devices []bool
	// Stop, unless it is nil, ends the search for fillings once it returns true.
	Stop func() bool
	// Machines is the least number of machines that the pods need, for reasons other than resources.
	Machines int
}

// Demand is a set of equal pods.
type Demand struct {
	// User is the index of the demand's user. The pods may use the supplies that have this index in Users.
	User    int
	Request capacity.Vector
	Count   int
	// Most is the greatest number of pods of the demand on one machine, even if the machine has room for more; 0 means any number. Only Fillings uses
	// it.
	Most int
}

// Supply is a kind of machine.
type Supply struct {
	Allocatable capacity.Vector
	Price       float64
	Users       bitset.Set // the users that may use it
	// Leads lists demands: the supply is bought only with a pod of one of them; nil for any. Only Fillings uses it.
	Leads bitset.Set
}

// Existing is a set of machines with the same room.
type Existing struct {
	Room  capacity.Vector
	Users bitset.Set // the users that may use it
	Count int
}

// Bound is a lower bound, and the prices that prove it. It is the dual of a linear program (Gilmore and Gomory 1961 give the idea for
// cutting stock): buy fractions of supplies, and put fractions of pods on supplies on which one such pod fits; the sums of all requests
// must fit.
//
//	max Σ n·π + N·ν   with   π ≤ r·u(supply) where the pod fits,   a(supply)·u(supply) + ν ≤ price(supply),   all ≥ 0
//
// The bound is one linear program for all pods, because the bounds of groups of pods cannot be added: groups share machines. A price u of
// an ordinary resource applies to a block, the supplies that the same pods may use. A price of a device applies to one supply, because pods
// with devices fit the fewest supplies. N is Problem.Machines.
type Bound struct {
	// Value is the least possible price of machines that hold the pods.
	Value float64

	demands  []demand
	machines int
	stop     func() bool
	supplies []supply
	existing []supply
	counts   []int // the number of machines of each of existing
	blocks   []block
	dims     []int // requested ordinary resources
	devices  []int // requested devices
	step     capacity.Vector
	total    capacity.Vector
	// u holds the price of each ordinary resource in each block, device the price of each device on each supply; add is ν.
	u      [][]float64
	device [][]float64
	add    float64
}

type demand struct {
	Demand
	blocks  []int
	devices bool
}

type supply struct {
	*Supply
	index  int // index in Problem.Supplies
	block  int
	size   capacity.Vector
	column int // the column of its first device price, -1 if it has none
}

// block represents all supplies with the same users.
type block struct {
	text  string
	users bitset.Set
}

// mostBlocks bounds the size of the linear program. Further blocks share the prices of the last one, which makes the bound lower but keeps
// it valid.
const mostBlocks = 12

// Of returns the bound of the problem.
func Of(p *Problem) *Bound {
	b := &Bound{machines: p.Machines, stop: p.Stop}
	for _, d := range p.Demands {
		b.demands = append(b.demands, demand{Demand: d})
	}
	b.measure(p)
	b.supply(p)
	b.solve()
	return b
}

// Kinds returns the number of demands.
func (b *Bound) Kinds() int { return len(b.demands) }

// Parts divides the demands into parts that share no supplies, not even by way of other demands, so the bounds of the parts can be added. Each part
// has the prices of the whole, and its demands have indexes from 0. Parts is for problems without Leads.
func (b *Bound) Parts() []*Bound {
	var out []*Bound
	var users []bitset.Set // the users of each part
	for i := range b.blocks {
		block := b.blocks[i].users.Clone()
		var apart []bitset.Set
		for _, part := range users {
			if part.Meets(block) {
				block.Or(part)
			} else {
				apart = append(apart, part)
			}
		}
		users = append(apart, block)
	}
	for _, part := range users {
		p := *b
		p.Value, p.machines, p.demands, p.supplies, p.device = 0, 0, nil, nil, nil
		for i := range b.demands {
			if w := &b.demands[i]; part.Has(w.User) {
				p.demands = append(p.demands, *w)
				p.Value += float64(float64(w.Count) * b.podWorth(w))
			}
		}
		for i := range b.supplies {
			if b.supplies[i].Users.Meets(part) {
				p.supplies, p.device = append(p.supplies, b.supplies[i]), append(p.device, b.device[i])
			}
		}
		out = append(out, &p)
	}
	return out
}

// most returns how many of n pods of the demand a machine of the size takes.
func (w *Demand) most(size capacity.Vector, n int) int {
	if w.Most > 0 {
		n = min(n, w.Most)
	}
	return w.Request.Times(size, n)
}

// measure finds the requested resources, and the steps of their requests. Sums of requests are multiples of a step, so no pods use the rest
// of a supply beyond a multiple.
func (b *Bound) measure(p *Problem) {
	width := len(p.Devices)
	b.step, b.total = make(capacity.Vector, width), make(capacity.Vector, width)
	for _, w := range b.demands {
		b.total.Add(w.Request, int64(w.Count))
		for d, n := range w.Request {
			b.step[d] = gcd(b.step[d], n)
		}
	}
	for d := range width {
		switch {
		case b.total[d] <= 0:
		case p.Devices[d]:
			b.devices = append(b.devices, d)
		default:
			b.dims = append(b.dims, d)
		}
	}
	for i := range b.demands {
		for _, d := range b.devices {
			b.demands[i].devices = b.demands[i].devices || b.demands[i].Request[d] > 0
		}
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// supply lists the supplies that matter. It leaves a supply out if another one has the same users and the same Leads, fits the same pods with devices,
// has at least as much of every resource, and costs no more.
func (b *Bound) supply(p *Problem) {
	kept := map[string][]int{}
	// The memory of one supply is used again for the next, because most supplies are left out.
	deviceUsers := bitset.New(len(b.demands))
	size := make(capacity.Vector, len(b.total))
	var text []byte
	for i := range p.Supplies {
		o := &p.Supplies[i]
		if o.Users.Empty() {
			continue
		}
		clear(deviceUsers)
		for i := range b.demands {
			if w := &b.demands[i]; w.devices && o.Users.Has(w.User) && w.Request.Fits(o.Allocatable) {
				deviceUsers.Add(i)
			}
		}
		text = o.Users.AppendText(text[:0])
		at := b.blockOf(o.Users, text)
		b.round(size, o.Allocatable)
		text = o.Leads.AppendText(deviceUsers.AppendText(text))
		if same := kept[string(text)]; !b.beaten(size, o.Price, same) {
			kept[string(text)] = append(same, len(b.supplies))
			b.supplies = append(b.supplies, supply{Supply: o, index: i, block: at, size: size.Clone(), column: -1})
		}
	}
	for i := range p.Existing {
		e := &p.Existing[i]
		s := supply{Supply: &Supply{Allocatable: e.Room, Users: e.Users}, index: len(p.Supplies) + i, size: make(capacity.Vector, len(b.total))}
		b.round(s.size, e.Room)
		b.existing, b.counts = append(b.existing, s), append(b.counts, e.Count)
	}
	for i := range b.demands {
		for k := range b.blocks {
			if b.blocks[k].users.Has(b.demands[i].User) {
				b.demands[i].blocks = append(b.demands[i].blocks, k)
			}
		}
	}
}

// blockOf returns the block of supplies with these users; text is their text.
func (b *Bound) blockOf(users bitset.Set, text []byte) int {
	for i := range b.blocks {
		if b.blocks[i].text == string(text) {
			return i
		}
	}
	if len(b.blocks) == mostBlocks {
		b.blocks[mostBlocks-1].users.Or(users)
		return mostBlocks - 1
	}
	b.blocks = append(b.blocks, block{string(text), users.Clone()})
	return len(b.blocks) - 1
}

// round writes into out the part of the size that pods can use.
func (b *Bound) round(out, size capacity.Vector) {
	for d, n := range size {
		n = max(0, n)
		if b.total[d] > 0 && n > b.total[d] {
			n = b.total[d] // pods never use more than they request together
		}
		if b.step[d] > 1 {
			n -= n % b.step[d]
		}
		out[d] = n
	}
}

// beaten reports whether one of the kept supplies costs no more and has at least as much of every requested resource. It compares prices,
// because supplies need not be sorted by price.
func (b *Bound) beaten(size capacity.Vector, price float64, kept []int) bool {
	for _, k := range kept {
		have := b.supplies[k].size
		ok := b.supplies[k].Price <= price
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

// columns holds the order of the columns of the linear program: u by block and resource, then w by set of blocks and resource (for demands that may
// use several blocks), then π of demands with devices, then the devices of each supply, then ν.
type columns struct {
	n    int
	w    map[string]int // first column of each set of blocks
	sets []string
	of   map[string][]int // the blocks of each set
	pi   []int            // the column for each demand, -1 if it has none
	add  int
}

func (b *Bound) columns() *columns {
	c := &columns{w: map[string]int{}, of: map[string][]int{}, n: len(b.blocks) * len(b.dims), pi: make([]int, len(b.demands))}
	for i := range b.demands {
		w := &b.demands[i]
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
	for i := range b.demands {
		if b.demands[i].devices {
			c.pi[i] = c.n
			c.n++
		}
	}
	for i := range b.supplies {
		if slices.ContainsFunc(b.devices, func(d int) bool { return b.supplies[i].size[d] > 0 }) {
			b.supplies[i].column = c.n
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

func (b *Bound) solve() {
	if len(b.demands) == 0 || len(b.supplies) == 0 {
		b.extract(nil, nil)
		return
	}
	c := b.columns()
	rows, right := b.rows(c)
	// Prices are scaled near one by a power of two, because the result must not depend on the currency; this changes no digit.
	dearest := slices.Max(right)
	_, exponent := math.Frexp(dearest)
	// Rows that end in zero make the simplex method cycle, so each gets a small constant of its own. extract corrects the prices for this.
	for i := range right {
		if right[i] = math.Ldexp(right[i], -exponent); right[i] == 0 {
			right[i] = 1e-5 * (1 + float64(i*7919%997)/997)
		}
	}
	x, _ := maximise(b.objective(c), rows, right, 40*(len(rows)+c.n))
	for i := range x {
		x[i] = math.Ldexp(x[i], exponent)
	}
	b.extract(c, x)
}

// objective returns the coefficients of the linear program: the pods' requests, as shares of all that is requested.
func (b *Bound) objective(c *columns) []float64 {
	objective := make([]float64, c.n)
	for i := range b.demands {
		w := &b.demands[i]
		if c.pi[i] >= 0 {
			objective[c.pi[i]] += float64(w.Count)
			continue
		}
		if len(w.blocks) == 0 {
			continue // no machine takes these pods, so they cost nothing
		}
		first := w.blocks[0] * len(b.dims)
		if len(w.blocks) > 1 {
			first = c.w[blocksText(w.blocks)]
		}
		for k, d := range b.dims {
			objective[first+k] += float64(w.Count) * float64(w.Request[d]) / float64(b.total[d])
		}
	}
	objective[c.add] = float64(b.machines)
	return objective
}

// rows returns the rows of the linear program, and their right sides: no machine is worth more than it costs.
func (b *Bound) rows(c *columns) (rows [][]float64, right []float64) {
	row := func(rhs float64) []float64 {
		r := make([]float64, c.n)
		rows, right = append(rows, r), append(right, rhs)
		return r
	}
	for i := range b.supplies {
		r := row(b.supplies[i].Price)
		b.addAmounts(r, &b.supplies[i], b.supplies[i].size, 1)
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
	for i := range b.demands {
		if c.pi[i] < 0 {
			continue
		}
		for j := range b.supplies {
			if o := &b.supplies[j]; able(&b.demands[i], o) {
				r := row(0)
				r[c.pi[i]] = 1
				b.addAmounts(r, o, b.demands[i].Request, -1)
			}
		}
	}
	return rows, right
}

// addAmounts sets the coefficients of the supply's prices for amounts of resources to these amounts, times the sign.
func (b *Bound) addAmounts(row []float64, o *supply, amounts capacity.Vector, sign float64) {
	for k, d := range b.dims {
		row[o.block*len(b.dims)+k] = sign * float64(amounts[d]) / float64(b.total[d])
	}
	if o.column < 0 {
		return
	}
	for k, d := range b.devices {
		row[o.column+k] = sign * float64(amounts[d])
	}
}

func able(w *demand, o *supply) bool { return o.Users.Has(w.User) && w.Request.Fits(o.Allocatable) }
