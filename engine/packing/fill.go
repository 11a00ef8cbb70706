package packing

import (
	"math"
	"math/bits"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/bound"
	"tenon.sh/engine/capacity"
)

// scratch holds data of the current filling. The next filling uses the same memory.
type scratch struct {
	open   []int
	compat bitset.Set
	parked bitset.Set // kinds that should rather be put on other machines, and may join if nothing else fits
	again  bool       // parked kinds may join now
	things bitset.Set // the shared things of the pods so far
	count  []int
	most   []int
	shape  []float64
	room   capacity.Vector
	roomy  []int64 // the room of the resources that matter
	// trial is the last open bin that was filled. kept is the best open bin of the offering so far. Their memory is used again, because most open
	// bins are dropped at once.
	trial, kept openBin
}

// fill puts pods on the offering into the open bin g.trial until nothing more fits. Each time it chooses the shape that best matches the remaining
// room and is worth most. Then it chooses the cheapest option that holds all these pods. fill reports false if no option does.
func (g *greedy) fill(o *offering, exponent int) bool {
	option := &g.s.market.pools[o.pool].Options[o.option]
	b := &g.trial
	b.begin(o.pool, len(option.Allocatable), g.s.market.pools[o.pool].Free)
	g.begin(o, option.Allocatable)
	g.lead(o, b)
	g.pour(o, b, exponent)
	for _, p := range b.loads {
		g.restore(p.lot, p.n)
	}
	b.has = g.things
	return len(b.loads) > 0 && g.s.market.cheapest(b, bound.WorthOf(b.sum, g.sup.low))
}

// begin empties the open bin, and keeps its memory for sums and loads.
func (b *openBin) begin(pool, dims int, free []bitset.Set) {
	sum := slices.Grow(b.sum[:0], dims)[:dims]
	clear(sum)
	*b = openBin{pool: pool, sum: sum, loads: b.loads[:0], free: free}
}

// lasting returns a copy that remains valid when the open bin begins again. The copy uses the memory of `spare`, unless that is nil.
func (b *openBin) lasting(spare *openBin) *openBin {
	if spare == nil {
		spare = &openBin{}
	}
	sum, loads := append(spare.sum[:0], b.sum...), append(spare.loads[:0], b.loads...)
	*spare = *b
	spare.sum, spare.loads = sum, loads
	return spare
}

func (g *greedy) reopen(o *offering) {
	g.open = g.open[:0]
	for i := range o.shapes {
		if !g.avail[o.shapes[i].shape].Empty() {
			g.open = append(g.open, i)
		}
	}
}

func (g *greedy) begin(o *offering, room capacity.Vector) {
	g.work += 8
	g.room = append(g.room[:0], room...)
	g.reopen(o)
	g.compat = append(g.compat[:0], o.kinds...)
	g.things = nil
	g.parked, g.again = append(g.parked[:0], o.kinds...), false
	for i := range g.parked {
		g.parked[i] = 0
	}
	for i := range g.count {
		g.count[i], g.most[i] = 0, math.MaxInt
	}
}

// lead puts the pods on the machine that it is bought for: on a large option, or one with devices, a pod that needs it, then a pod of a
// driver kind.
func (g *greedy) lead(o *offering, b *openBin) {
	p := &g.s.market.pools[o.pool]
	large, devices := p.Options[o.option].Large, p.devices[o.option]
	if large || devices {
		if !g.first(o, b, func(l *lot) bool {
			r := g.sup.shapes[l.shape].request
			return (!large || l.needsLarge) && (!devices || l.needsDevices || g.s.market.asksFor(r, p, o.option))
		}) {
			g.open = g.open[:0]
			return
		}
	}
	if !g.sup.drivers.Empty() {
		g.first(o, b, func(l *lot) bool { return g.sup.kinds[l.kind].driver })
	}
	g.scatter(o, b)
}

// scatter puts on the machine some pods of kinds of which a machine takes only a few. It does so if so many of these pods are left that every further
// machine of this size has to take its part. Without scatter, many of these pods would need machines of their own in the end.
func (g *greedy) scatter(o *offering, b *openBin) {
	machines := g.value / o.price
	for _, k := range g.sup.capped {
		most := g.sup.kinds[k].most
		if n := (g.ofKind[k] + most - 1) / most; n == 0 || float64(n) < 0.8*machines || !g.compat.Has(k) {
			continue
		}
		for _, gs := range o.shapes {
			if h := gs.shape; g.avail[h].Has(k) && g.sup.shapes[h].request.Fits(g.room) {
				g.putKind(o, b, h, k, 8*most)
				break
			}
		}
	}
}

// first puts one pod on the open bin: a pod of a lot for which `will` returns true. It reports whether it did.
func (g *greedy) first(o *offering, b *openBin, will func(l *lot) bool) bool {
	for _, gs := range o.shapes {
		h := gs.shape
		if !g.sup.shapes[h].request.Fits(g.room) {
			continue
		}
		for k := nextIn(g.avail[h], g.compat, 0); k >= 0; k = nextIn(g.avail[h], g.compat, k+1) {
			if l := g.sup.lotOf(h, k); will(&g.sup.lots[l]) && g.putKind(o, b, h, k, 1) {
				return true
			}
		}
	}
	return false
}

// pour fills the room that is left.
func (g *greedy) pour(o *offering, b *openBin, exponent int) {
	a := g.s.market.pools[o.pool].Options[o.option].Allocatable
	dims := len(g.sup.dims)
	room, shape := g.roomy[:dims], g.shape[:dims]
	for {
		for i, dim := range g.sup.dims {
			room[i], shape[i] = g.room[dim], 0
			if a[dim] > 0 {
				shape[i] = o.weight[i] * float64(room[i]) / float64(a[dim])
			}
		}
		at, most := -1, 0.0
		kept := g.open[:0]
		for _, i := range g.open {
			if !holds(room, o.asks[i*dims:][:dims]) {
				continue
			}
			gs := &o.shapes[i]
			if !meets(g.avail[gs.shape], g.compat) {
				continue
			}
			kept = append(kept, i)
			dot := 0.0
			for j, x := range o.shares[i*dims:][:dims] {
				dot += float64(x * shape[j])
			}
			if score := dot * gs.score[exponent]; score > most || at < 0 {
				at, most = i, score
			}
		}
		g.work += len(g.open) + 4
		g.open = kept
		if at < 0 && g.readmit(o) {
			continue
		}
		if at < 0 {
			g.s.market.use(g.work / Comparisons)
			g.work %= Comparisons
			return
		}
		h := o.shapes[at].shape
		n := g.sup.shapes[h].request.Times(g.room, math.MaxInt32)
		g.put(o, b, h, n)
	}
}

// holds reports whether the room is enough for the request.
func holds(room, asks []int64) bool {
	for i, n := range asks {
		if n > room[i] && n > 0 {
			return false
		}
	}
	return true
}

// readmit lets the parked kinds join after all. It reports false if no kind is parked.
func (g *greedy) readmit(o *offering) bool {
	if g.again {
		return false
	}
	g.again = true
	found := false
	for k := g.parked.Next(0); k >= 0; k = g.parked.Next(k + 1) {
		if g.takes(g.sup.kinds[k].host) {
			g.compat.Add(k)
			found = true
		}
	}
	if found {
		g.reopen(o)
	}
	return found
}

// put adds to the machine pods of the first kind of the shape that the machine may take: an eighth of the number that fits, and at least one.
func (g *greedy) put(o *offering, b *openBin, h, fits int) {
	for k := nextIn(g.avail[h], g.compat, 0); k >= 0; k = nextIn(g.avail[h], g.compat, k+1) {
		if g.putKind(o, b, h, k, fits) {
			return
		}
	}
}

// nextIn returns the smallest common member that is i or more. It returns -1 if there is none.
func nextIn(a, b bitset.Set, i int) int {
	for w := i / 64; w < len(a); w++ {
		x := a[w] & b[w]
		if w == i/64 {
			x = x >> (i % 64) << (i % 64)
		}
		if x != 0 {
			return bitset.Set{x}.Next(0) + 64*w
		}
	}
	return -1
}

func (g *greedy) putKind(o *offering, b *openBin, h, k, fits int) bool {
	shape := &g.sup.shapes[h]
	lot := g.sup.lotOf(h, k)
	kind := &g.sup.kinds[k]
	need := lacking(shape.whole, kind.host.shared, g.things)
	large, device := b.large, b.device
	b.large, b.device = b.large || g.sup.lots[lot].needsLarge, b.device || g.sup.lots[lot].needsDevices
	if len(kind.host.shared) > 0 && !need.Fits(g.room) || !g.join(b, kind, o.option, need) {
		g.compat.Remove(k)
		b.large, b.device = large, device
		return false
	}
	if len(kind.host.shared) > 0 {
		fits = min(fits, g.bring(b, kind.host, need, shape.request))
	}
	n := (min(fits, g.left[lot]) + 7) / 8
	n = min(n, g.mostOf(kind), g.spare(b, lot))
	if g.sup.twins[k] != nil && !g.again {
		n = 1
	}
	if b.variety != nil {
		n = g.s.market.mostVaried(b, need, shape.request, n)
	}
	g.room.Add(shape.request, -int64(n))
	b.sum.Add(shape.request, int64(n))
	if last := len(b.loads) - 1; last >= 0 && b.loads[last].lot == lot {
		b.loads[last].n += n
	} else if i := slices.IndexFunc(b.loads, func(l load) bool { return l.lot == lot }); i >= 0 {
		b.loads[i].n += n
	} else {
		b.loads = append(b.loads, load{lot, n})
	}
	g.remove(lot, n)
	g.shut(b, lot)
	g.meet(k, n)
	return true
}

// bring puts the shared things of a kind on the machine: the kind's first pod takes them, further pods do not. It returns how many pods of the kind
// the machine then holds, the first one included.
func (g *greedy) bring(b *openBin, host *hostRules, first, other capacity.Vector) int {
	g.room.Add(first, -1)
	g.room.Add(other, 1)
	b.sum.Add(first, 1)
	b.sum.Add(other, -1)
	g.things = g.s.p.withThings(g.things, host.shared)
	return other.Times(g.room, math.MaxInt32)
}

// spare returns the number of further pods of the lot that the machine should have at most.
func (g *greedy) spare(b *openBin, lot int) int {
	most := g.sup.lots[lot].most
	if most == 0 || !g.apart {
		return math.MaxInt
	}
	for _, l := range b.loads {
		if l.lot == lot {
			return most - l.n
		}
	}
	return most
}

// shut keeps further pods of the lot off the machine once it has as many of them as it should have.
func (g *greedy) shut(b *openBin, lot int) {
	if g.left[lot] > 0 && g.spare(b, lot) <= 0 {
		l := &g.sup.lots[lot]
		g.avail[l.shape].Remove(l.kind)
	}
}

// mostOf returns how many pods of the kind the machine takes by their rules. The number is at least 1, because the kind is compatible with the kinds
// on the machine.
func (g *greedy) mostOf(kind *kind) int {
	if kind.host.none() {
		return math.MaxInt
	}
	if meets(kind.host.owns, kind.host.rejects) {
		return 1
	}
	n := math.MaxInt
	for i, group := range kind.host.groups {
		if most := min(g.most[group], kind.host.bounds[i]); most < math.MaxInt {
			n = min(n, most-g.count[group])
		}
	}
	return max(n, 1)
}

// meet notes that n pods of kind k are on the machine, and removes the kinds that are no longer compatible.
func (g *greedy) meet(k, n int) {
	host := g.sup.kinds[k].host
	if c := g.sup.clashes[k]; c != nil {
		for w := range g.compat {
			g.compat[w] &^= c[w]
			g.parked[w] &^= c[w]
		}
	}
	if t := g.sup.twins[k]; t != nil && !g.again {
		for w := range g.compat {
			g.parked[w] |= g.compat[w] & t[w]
			g.compat[w] &^= t[w]
		}
	}
	for _, group := range host.groups {
		g.count[group] += n
	}
	for _, sp := range host.spread {
		g.most[sp.group] = min(g.most[sp.group], sp.most)
	}
	for w, word := range g.sup.near[k] {
		for others := word & g.compat[w]; others != 0; others &= others - 1 {
			if other := 64*w + bits.TrailingZeros64(others); !g.takes(g.sup.kinds[other].host) {
				g.compat.Remove(other)
			}
		}
	}
}

// takes reports whether the counts on the machine leave room for one more pod with these rules. The order in which the pods are added makes no
// difference, because bounds apply to the final counts.
func (g *greedy) takes(r *hostRules) bool { return takes(r, g.count, g.most) }

func takes(r *hostRules, count, most []int) bool {
	for i, group := range r.groups {
		if count[group]+1 > min(most[group], r.bounds[i]) {
			return false
		}
	}
	for _, sp := range r.others {
		if count[sp.group] > sp.most {
			return false
		}
	}
	return true
}

// join narrows the open bin to one of the kind's ways that has the option. It changes nothing and reports false if no way is possible, or
// if the bin's list of options would become too short.
func (g *greedy) join(b *openBin, k *kind, option int, request capacity.Vector) bool {
	ways := k.ways.Pools[b.pool]
	for i := range ways {
		way := &ways[i]
		if !way.Options.Has(option) {
			continue
		}
		same := b.ways != nil && b.ways.Within(way.Options)
		if same && allNil(way.Free) && b.variety == nil {
			return true
		}
		free, ok := narrow(b.free, way.Free)
		if !ok {
			continue
		}
		options := b.ways
		if !same {
			options = way.Options.Clone()
		}
		if b.ways != nil && !same {
			options.And(b.ways)
		}
		if g.s.market.pools[b.pool].Variety != nil && !g.s.market.varied(b, options, request) {
			continue
		}
		b.free, b.ways = free, options
		return true
	}
	return false
}

func allNil(sets []bitset.Set) bool {
	for _, s := range sets {
		if s != nil {
			return false
		}
	}
	return true
}

// narrow intersects sets with by; ok is false if a key is left without a value.
func narrow(sets, by []bitset.Set) (out []bitset.Set, ok bool) {
	out = sets
	copied := false
	for k, set := range by {
		if set == nil || sets[k].Within(set) {
			continue
		}
		if !sets[k].Meets(set) {
			return nil, false
		}
		if !copied {
			out, copied = slices.Clone(sets), true
		}
		out[k] = sets[k].Clone()
		out[k].And(set)
	}
	return out, true
}
