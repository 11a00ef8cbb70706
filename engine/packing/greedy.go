package packing

import (
	"math"

	"tenon.sh/engine/bitset"
)

// exponents are the powers to which the score of a shape raises a pod's worth. Each exponent fills machines with other pods.
var exponents = [4]float64{0.3, 0.6, 1, 1.5}

// roominess is the factor of perNode while the first machines are bought; improve uses it in half of its tries, and 1 in the others.
// Without it, the first machines would be small, because a few chosen pods always fill a small machine completely; but the remaining pods
// would then fit no machine well.
const roominess = 30

// greedy is the state of a method that, again and again, buys the machine that gives the most worth for its price.
type greedy struct {
	s         *search
	sup       *supply
	left      []int        // the pods of each lot without a machine
	avail     []bitset.Set // of each shape, the kinds of its pods without a machine
	ofKind    []int        // the pods of each kind without a machine
	value     float64      // the worth of all pods that have no machine yet
	exponents []int
	apart     bool                    // whether to keep replicas apart
	forced    bool                    // whether to buy offerings with devices first, which are needed in any case, and then the rest
	skip      func(offering int) bool // reports the offerings to leave out; nil for none
	roominess float64                 // the factor of perNode in the choice of a pattern
	bins      []*openBin
	cost      float64 // the planning price of the open bins
	ceiling   float64 // give up once the cost reaches it; 0 means never

	// stale holds, for each offering, the worth per unit of price when the offering was last filled. This worth only falls as pods are placed, so
	// most offerings need not be filled again after each purchase (M. Minoux, Accelerated greedy algorithms, 1978).
	stale  []float64
	fresh  []int // of each offering, the number of purchases when stale was computed
	drafty []*openBin
	heap   []int // offerings, the greatest stale first
	bought int
	work   int // Comparisons that are not charged yet
	scratch
}

func (s *search) newGreedy(sup *supply, left []int) *greedy {
	g := &greedy{s: s, sup: sup, left: left, apart: sup.apart, exponents: []int{0, 1, 2, 3}, roominess: roominess}
	g.avail, g.ofKind = make([]bitset.Set, len(sup.shapes)), make([]int, len(sup.kinds))
	words := len(bitset.New(len(sup.kinds)))
	avail := make(bitset.Set, words*len(sup.shapes)) // read very often, so it lies close together in memory
	for h := range sup.shapes {
		g.avail[h] = avail[h*words:][:words:words]
		for i, k := range sup.shapes[h].kinds {
			if n := left[sup.shapes[h].lots[i]]; n > 0 {
				g.avail[h].Add(k)
				g.ofKind[k] += n
				g.value += float64(float64(n) * sup.shapes[h].value)
			}
		}
	}
	g.stale, g.fresh, g.drafty = make([]float64, len(sup.offerings)), make([]int, len(sup.offerings)), make([]*openBin, len(sup.offerings))
	g.count, g.most = make([]int, s.host.nGroups), make([]int, s.host.nGroups)
	g.shape, g.roomy = make([]float64, len(sup.dims)), make([]int64, len(sup.dims))
	return g
}

// run buys machines until no offering holds a pod that is left.
func (g *greedy) run() {
	if g.forced {
		g.reset(func(i int) bool { return !g.scarce(i) || g.skip != nil && g.skip(i) })
		g.buyAll()
	}
	g.reset(g.skip)
	g.buyAll()
}

// scarce reports whether the offering has devices. An offering with devices is bought only for pods that request them.
func (g *greedy) scarce(i int) bool {
	o := &g.sup.offerings[i]
	return g.s.market.pools[o.pool].devices[o.option]
}

func (g *greedy) buyAll() {
	for {
		best := g.best()
		if best == nil {
			return
		}
		times := math.MaxInt
		for _, p := range best.loads {
			times = min(times, g.left[p.lot]/p.n)
		}
		for i := range times {
			if !g.take(best, i == 0) {
				break
			}
			if g.ceiling > 0 && g.cost >= g.ceiling {
				return
			}
		}
		g.bought++
	}
}

// take adds a copy of the pattern to the open bins; it reports false if limits or quotas forbid it.
func (g *greedy) take(b *openBin, first bool) bool {
	if !g.s.market.spend(b) {
		return false
	}
	for _, p := range b.loads {
		g.remove(p.lot, p.n)
	}
	g.cost += b.price + g.sup.perNode
	if !first {
		copied := *b
		b = &copied
	}
	g.bins = append(g.bins, b)
	return true
}

func (g *greedy) remove(lot, n int) {
	l := &g.sup.lots[lot]
	g.tally(l, -n)
	if g.left[lot] -= n; g.left[lot] == 0 {
		g.avail[l.shape].Remove(l.kind)
	}
}

func (g *greedy) restore(lot, n int) {
	l := &g.sup.lots[lot]
	g.tally(l, n)
	g.left[lot] += n
	g.avail[l.shape].Add(l.kind)
}

func (g *greedy) tally(l *lot, n int) {
	g.ofKind[l.kind] += n
	g.value += float64(float64(n) * g.sup.shapes[l.shape].value)
}

// reset gives offerings their greatest possible worth again. It leaves out the offerings for which skip, unless it is nil, returns true.
func (g *greedy) reset(skip func(good int) bool) {
	g.heap = g.heap[:0]
	for i := range g.sup.offerings {
		if skip == nil || !skip(i) {
			g.stale[i], g.fresh[i] = g.sup.offerings[i].promise, -1
			g.heap = append(g.heap, i) // a heap, because offerings are sorted by promise
		}
	}
	g.bought = 0
}

// best fills the most promising offerings again until one is worth more than all others can be, and returns its open bin. It may be called
// again only after a purchase or a reset.
func (g *greedy) best() *openBin {
	for len(g.heap) > 0 {
		top := g.heap[0]
		if g.fresh[top] == g.bought {
			b := g.drafty[top]
			g.drafty[top] = nil // the caller owns it
			return b
		}
		g.refresh(top)
		if g.drafty[top] == nil { // no pod that is left fits
			last := len(g.heap) - 1
			g.heap[0] = g.heap[last]
			g.heap = g.heap[:last]
		}
		g.sink()
	}
	return nil
}

// sink moves the first offering down to its place in the heap.
func (g *greedy) sink() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(g.heap) {
			return
		}
		if child+1 < len(g.heap) && g.before(g.heap[child+1], g.heap[child]) {
			child++
		}
		if !g.before(g.heap[child], g.heap[i]) {
			return
		}
		g.heap[i], g.heap[child] = g.heap[child], g.heap[i]
		i = child
	}
}

func (g *greedy) before(a, b int) bool {
	if g.stale[a] != g.stale[b] {
		return g.stale[a] > g.stale[b]
	}
	return a < b
}

func (g *greedy) refresh(i int) {
	o := &g.sup.offerings[i]
	spare := g.drafty[i]
	g.fresh[i], g.stale[i], g.drafty[i] = g.bought, 0, nil
	for _, e := range g.exponents {
		if !g.fill(o, e) {
			break
		}
		b := &g.trial
		value := g.valueOf(b)
		if cost := b.price + float64(g.roominess*g.sup.perNode); cost > 0 {
			value /= cost
		} else {
			value = math.MaxFloat64
		}
		if value > g.stale[i]*(1+1e-9) {
			g.stale[i] = value
			g.trial, g.kept = g.kept, g.trial
		}
	}
	if g.stale[i] > 0 {
		g.drafty[i] = g.kept.lasting(spare)
	}
}

func (g *greedy) valueOf(b *openBin) float64 {
	sum, driver := 0.0, false
	for _, p := range b.loads {
		l := &g.sup.lots[p.lot]
		sum += float64(float64(p.n) * g.sup.shapes[l.shape].value)
		driver = driver || g.sup.kinds[l.kind].driver
	}
	if driver {
		sum += g.sup.perAdd
	}
	return sum
}

// power returns about x to the power of e. It uses only operations that round alike on every processor.
func power(x, e float64) float64 {
	switch e {
	case 1:
		return x
	case 1.5:
		return x * math.Sqrt(x)
	case 0.6:
		return math.Sqrt(x) * math.Sqrt(math.Sqrt(math.Sqrt(x))) // the power 0.625 is close enough
	case 0.3:
		return math.Sqrt(math.Sqrt(x)) * math.Sqrt(math.Sqrt(math.Sqrt(math.Sqrt(x)))) // the power 0.3125
	}
	return math.Sqrt(x)
}
