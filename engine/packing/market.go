package packing

import (
	"cmp"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/topology"
)

// market holds the pools of a problem, the remainder of their limits and quotas in a round, and the remaining effort for finding machines.
type market struct {
	p       *Problem
	pools   []supplyPool
	quotas  []int // the units left of each quota
	effort  int
	scanned int   // comparisons that are not charged yet
	looks   int64 // the number of looks in this round
	// uncharged is a number of looks that is too small for a unit of Work.
	uncharged int
	// selections caches selections of options; each thread has its own.
	selections map[string]*selection
}

// supplyPool is a pool with further data for the search.
type supplyPool struct {
	*Pool
	byPrice []int // listed options, cheapest first
	left    capacity.Vector
	limited bool
	devices []bool // of each option, whether it has devices
	// The following fields are for pools with a variety: the number of values that each variety requires, and the options by type.
	asked  []int
	lines  []line
	lineOf []int
}

func newSupplyPool(problem *Problem, p *Pool) supplyPool {
	pool := supplyPool{Pool: p, devices: make([]bool, len(p.Options))}
	for i := range p.Options {
		if p.Options[i].Listed {
			pool.byPrice = append(pool.byPrice, i)
		}
		for d, device := range problem.Devices {
			pool.devices[i] = pool.devices[i] || device && p.Options[i].Allocatable[d] > 0
		}
	}
	slices.SortStableFunc(pool.byPrice, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.Options[a].Price, p.Options[b].Price), cmp.Compare(a, b))
	})
	for _, v := range p.Variety {
		pool.asked = append(pool.asked, v.Min)
	}
	if p.Variety != nil {
		pool.lines, pool.lineOf = linesOf(p, pool.byPrice)
	}
	for _, n := range p.Left {
		pool.limited = pool.limited || n < capacity.Most
	}
	return pool
}

// within reports whether limits leave room for the charge. Unlike Fits, it checks every resource, also one whose limit is exceeded already.
func within(charge, left capacity.Vector) bool {
	for d, n := range charge {
		if n > 0 && n > left[d] {
			return false
		}
	}
	return true
}

// spend charges the open bin against limits and quotas. If they forbid it, it changes nothing and reports false.
func (m *market) spend(b *openBin) bool {
	p := &m.pools[b.pool]
	if p.limited && !within(m.billOf(b), p.left) || !m.quotasHold(m.drawsOf(b)) {
		return false
	}
	m.charge(b, 1)
	return true
}

// charge charges n copies of the open bin to limits and quotas. If n is -1, it takes back one charge.
func (m *market) charge(b *openBin, n int) {
	p := &m.pools[b.pool]
	if p.limited {
		p.left.Add(m.billOf(b), -int64(n))
	}
	m.deduct(m.drawsOf(b), n)
}

func (m *market) chargeAll(bins []*openBin, n int) {
	for _, b := range bins {
		m.charge(b, n)
	}
}

// billOf returns the amount that the open bin uses of the limits: the charge of its option or, with a list of options, the largest amount of each
// resource in the list.
func (m *market) billOf(b *openBin) capacity.Vector {
	if b.bill != nil {
		return b.bill
	}
	return m.pools[b.pool].Options[b.option].Charge
}

// quotasHold reports whether the quotas have enough units left for the draws.
func (m *market) quotasHold(draws []Draw) bool {
	for _, d := range draws {
		if d.Units > m.quotas[d.Quota] {
			return false
		}
	}
	return true
}

// deduct subtracts n times the draws from the quotas. If n is -1, it gives the draws back.
func (m *market) deduct(draws []Draw, n int) {
	for _, d := range draws {
		m.quotas[d.Quota] -= n * d.Units
	}
}

// drawsOf returns the units that the open bin takes of quotas: the draws of its option or, if it has to list several options, the most that
// any of them takes of each quota.
func (m *market) drawsOf(b *openBin) []Draw {
	if b.draws != nil {
		return b.draws
	}
	return m.pools[b.pool].Options[b.option].Draws
}

// affordable reports whether the pool's limits and the quotas leave room for one machine of the option.
func (m *market) affordable(p, o int) bool {
	pool := &m.pools[p]
	return (!pool.limited || within(pool.Options[o].Charge, pool.left)) && (len(m.quotas) == 0 || m.quotasHold(pool.Options[o].Draws))
}

func (m *market) poolSells(ways []Way, p int, v capacity.Vector) bool {
	pool := &m.pools[p]
	for _, o := range slices.Backward(pool.byPrice) { // dear options are large, so most pods fit the first
		if v.Fits(pool.Options[o].Allocatable) && admits(ways, o) && m.affordable(p, o) {
			return true
		}
	}
	return false
}

func admits(ways []Way, o int) bool {
	for i := range ways {
		if ways[i].Options.Has(o) {
			return true
		}
	}
	return false
}

// cheapest gives the open bin the cheapest option that holds its pods and that limits and quotas allow; it reports whether there is one. No
// option that holds the pods costs less than floor.
func (m *market) cheapest(b *openBin, floor float64) bool {
	pool := &m.pools[b.pool]
	from := 0
	if len(m.p.Quotas) == 0 && floor > 0 {
		floor *= 1 - 1e-9
		from, _ = slices.BinarySearchFunc(pool.byPrice, floor, func(o int, p float64) int {
			if pool.Options[o].Price < p {
				return -1
			}
			return 1
		})
	}
	if b.variety != nil {
		return m.cheapestVaried(b, pool.byPrice[from:])
	}
	for _, o := range pool.byPrice[from:] {
		option := &pool.Options[o]
		if !b.ways.Has(o) || !b.sum.Fits(option.Allocatable) {
			continue
		}
		if m.suits(b, o) && m.affordable(b.pool, o) {
			b.option, b.price = o, option.Price
			return true
		}
	}
	return false
}

// suits reports whether the option may be bought for the bin's pods. Large options and options with devices may be bought only for certain pods.
func (m *market) suits(b *openBin, o int) bool {
	p := &m.pools[b.pool]
	if p.Options[o].Large && !b.large {
		return false
	}
	return !p.devices[o] || b.device || m.asksFor(b.sum, p, o)
}

// asksFor reports whether the request asks for a device that the option has.
func (m *market) asksFor(request capacity.Vector, pool *supplyPool, o int) bool {
	for d, device := range m.p.Devices {
		if device && request[d] > 0 && pool.Options[o].Allocatable[d] > 0 {
			return true
		}
	}
	return false
}

func (m *market) priceOf(bought *Machine) float64 {
	return m.pools[bought.Pool].Options[bought.Chosen].Price
}

// placesOf returns the places in which the machine may turn out to be, each once.
func (m *market) placesOf(bought *Machine) []topology.Place {
	var out []topology.Place
	seen := bitset.New(len(m.p.Places))
	for _, o := range bought.Listed {
		if at := m.pools[bought.Pool].Options[o].Place; !seen.Has(at) {
			seen.Add(at)
			out = append(out, m.p.Places[at])
		}
	}
	return out
}

// use spends units of effort.
func (m *market) use(units int) {
	m.effort -= units
	if m.p.Work != nil && units > 0 {
		m.p.Work.Add(int64(units))
	}
}

// looksPerComparison is how many looks take as long as one comparison. One look is at one rule, option or domain.
const looksPerComparison = 32

// look counts looks of placing. Looks spend no effort, because placing needs them in any case.
func (m *market) look(n int) {
	m.p.looked.Add(int64(n))
	m.looks += int64(n)
	if m.p.Work == nil {
		return
	}
	m.uncharged += n
	m.p.Work.Add(int64(m.uncharged / (Comparisons * looksPerComparison)))
	m.uncharged %= Comparisons * looksPerComparison
}

// scan spends the effort of n comparisons.
func (m *market) scan(n int) {
	m.scanned += n
	m.use(m.scanned / Comparisons)
	m.scanned %= Comparisons
}
