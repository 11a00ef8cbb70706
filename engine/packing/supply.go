package packing

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/bound"
	"tenon.sh/engine/capacity"
)

// supply is the input of the greedy search: the demands and options of one tier of pools, and the worth of resources. Demands are grouped
// into shapes (equal requests) and kinds (equal rules and ways): the kind decides whether a pod may join a machine, the shape whether it
// fits.
type supply struct {
	apart     bool // whether replicas of one workload are kept apart
	pools     []int
	demands   []*demand
	shapes    []shape
	kinds     []kind
	offerings []offering
	clashes   []bitset.Set // of each kind, the kinds that cannot share a machine with it; nil for none
	twins     []bitset.Set // of each kind, the kinds that should rather not share a machine with it; nil for none
	u         []float64    // price of a unit of each resource
	low       []float64    // a lower bound for the price of a unit of each resource on any option
	perNode   float64      // added to each machine's price, to prefer fewer machines at the same price
	perAdd    float64      // worth of one more machine, if rules between pods need many
	bound     *bound.Bound
	before    []int // of each demand, the number of pods without a machine at first
	lots      []lot
	avail     []bitset.Set // of each shape, the kinds of its pods without a machine
	near      []bitset.Set // of each kind, the kinds with one of its host groups; nil for none
	drivers   bitset.Set   // the kinds whose rules decide the number of machines
	capped    []int        // the kinds with a bound for their pods on one machine
	dims      []int        // resources that matter
}

// shape is the demands with one request.
type shape struct {
	request capacity.Vector // the request without the shared things that other pods may have brought to the machine
	whole   capacity.Vector // the request with these things
	value   float64         // worth of one pod; never 0
	kinds   []int           // ascending
	lots    []int           // the lot of each of the kinds
}

// lot is all pods of one shape and kind, of any classes; the search treats them as equal.
type lot struct {
	shape, kind int
	demands     []*demand
	n           int // pods
	// needsLarge and needsDevices mark pods that fit only large options, or only options with devices.
	needsLarge, needsDevices bool
	// most is the number of pods of the lot that one machine should have at most, because they are replicas of one workload; 0 means any
	// number.
	most int
}

// kind is the demands with the same ways and rules.
type kind struct {
	ways   *Ways
	host   *hostRules
	driver bool // whether the kind is in supply.drivers
	most   int  // how many of its pods a machine takes; 0 means any number
}

// offering is an option worth starting a machine with: no other option for the same demands has as many resources at a lower price.
type offering struct {
	pool, option int
	price        float64
	promise      float64 // worth of all its resources per unit of price: no filling has more
	kinds        bitset.Set
	weight       []float64 // the weight of each of the supply's resources in the comparison of shapes
	shapes       []offeringFit
	// `asks` has, for each shape in turn, its request for each of the supply's resources. `shares` has the same layout, with each request as a
	// weighted share of the machine. Both are flat lists because they are read very often.
	asks   []int64
	shares []float64
}

// offeringFit is a shape that fits this offering, with its score for each exponent.
type offeringFit struct {
	shape int
	score [4]float64
}

func (s *search) newSupply(pools []int, demands []*demand) *supply {
	sup := &supply{pools: pools}
	for _, d := range demands {
		if d.left > 0 && len(d.company) == 0 && s.sellsIn(pools, d) {
			sup.demands = append(sup.demands, d)
		}
	}
	if len(sup.demands) == 0 {
		return sup
	}
	sup.sort()
	for _, p := range pools {
		sup.offerings = append(sup.offerings, s.offeringsOf(sup, p)...)
	}
	sup.special(s)
	sup.price(s)
	return sup
}

// sellsIn reports whether some option of the pools can hold one pod of the demand.
func (s *search) sellsIn(pools []int, d *demand) bool {
	for _, p := range pools {
		if len(d.ways.Pools[p]) > 0 && s.market.poolSells(d.ways.Pools[p], p, d.request) {
			return true
		}
	}
	return false
}

// sort divides the demands into shapes and kinds.
func (sup *supply) sort() {
	type kindKey struct {
		ways *Ways
		host *hostRules
	}
	kinds := map[kindKey]int{}
	shapes := map[string]int{}
	// Demands with rules for single machines come first, because fewer machines suit them.
	slices.SortStableFunc(sup.demands, func(a, b *demand) int { return cmp.Compare(strictness(b.host), strictness(a.host)) })
	for _, d := range sup.demands {
		key := kindKey{d.ways, d.host}
		k, ok := kinds[key]
		if !ok {
			k = len(sup.kinds)
			kinds[key] = k
			sup.kinds = append(sup.kinds, kind{ways: d.ways, host: d.host})
		}
		text := d.request.Text()
		if &d.own[0] != &d.request[0] {
			text += d.own.Text()
		}
		h, ok := shapes[text]
		if !ok {
			h = len(sup.shapes)
			shapes[text] = h
			sup.shapes = append(sup.shapes, shape{request: d.own, whole: d.request})
		}
		sup.add(h, k, d)
	}
	sup.avail = make([]bitset.Set, len(sup.shapes))
	for h := range sup.shapes {
		sup.avail[h] = bitset.Of(len(sup.kinds), sup.shapes[h].kinds...)
	}
	sup.relate()
}

// relate finds out which kinds have rules about each other.
func (sup *supply) relate() {
	sup.twins = make([]bitset.Set, len(sup.kinds))
	bySpread := map[int]bitset.Set{}
	for k := range sup.kinds {
		for _, g := range sup.kinds[k].host.spreads {
			if bySpread[g] == nil {
				bySpread[g] = bitset.New(len(sup.kinds))
			}
			bySpread[g].Add(k)
			sup.twins[k] = bySpread[g]
		}
	}
	sup.clashes = make([]bitset.Set, len(sup.kinds))
	for a := range sup.kinds {
		if sup.kinds[a].host.owns == nil && sup.kinds[a].host.rejects == nil {
			continue
		}
		sup.clashes[a] = bitset.New(len(sup.kinds))
		for b := range sup.kinds {
			if clash(sup.kinds[a].host, sup.kinds[b].host) {
				sup.clashes[a].Add(b)
			}
		}
	}
	sup.findNear()
}

// findNear finds, for each kind, the kinds that count in one of its groups. It also finds the kinds of which a machine takes only some pods.
func (sup *supply) findNear() {
	byGroup := map[int]bitset.Set{}
	sup.near = make([]bitset.Set, len(sup.kinds))
	for k := range sup.kinds {
		if sup.kinds[k].most = sup.kinds[k].host.most(); sup.kinds[k].most > 0 {
			sup.capped = append(sup.capped, k)
		}
		for _, g := range sup.kinds[k].host.touched {
			if byGroup[g] == nil {
				byGroup[g] = bitset.New(len(sup.kinds))
			}
			byGroup[g].Add(k)
		}
	}
	for k := range sup.kinds {
		for i, g := range sup.kinds[k].host.touched {
			if i == 0 {
				sup.near[k] = bitset.New(len(sup.kinds))
			}
			sup.near[k].Or(byGroup[g])
		}
	}
}

func strictness(r *hostRules) int {
	switch {
	case r.none():
		return 0
	case r.alone():
		return 2
	}
	return 1
}

// add puts a demand into the lot of its shape and kind.
func (sup *supply) add(h, k int, d *demand) {
	shape := &sup.shapes[h]
	at, there := slices.BinarySearch(shape.kinds, k)
	if !there {
		shape.kinds = slices.Insert(shape.kinds, at, k)
		shape.lots = slices.Insert(shape.lots, at, len(sup.lots))
		sup.lots = append(sup.lots, lot{shape: h, kind: k})
	}
	l := &sup.lots[shape.lots[at]]
	l.demands = append(l.demands, d)
	l.n += d.left
}

// lotOf returns the lot of a shape and one of its kinds.
func (sup *supply) lotOf(h, k int) int {
	at, _ := slices.BinarySearch(sup.shapes[h].kinds, k)
	return sup.shapes[h].lots[at]
}

// machines returns the least number of machines that rules between pods need. If a rule lets a machine have only n pods of a group, each of these
// pods takes up 1/n of a machine, whatever the other rules allow. The result is the number for the group that needs the most machines. If the result
// is more than one, machines marks as drivers the kinds with rules that need at least 9/10 of it.
func (sup *supply) machines(counts []int) int {
	marks, groups := map[int]float64{}, map[int]float64{}
	each := func(r *hostRules, f func(parts map[int]float64, at, most int)) {
		r.each(func(byMark bool, at, most int) {
			if byMark {
				f(marks, at, most)
			} else {
				f(groups, at, most)
			}
		})
	}
	for i, d := range sup.demands {
		each(d.host, func(parts map[int]float64, at, most int) { parts[at] += float64(counts[i]) / float64(most) })
	}
	sup.drivers = bitset.New(len(sup.kinds))
	need := func(parts map[int]float64, at int) int { return int(math.Ceil(parts[at] - 1e-9)) }
	n := 0
	for _, d := range sup.demands {
		each(d.host, func(parts map[int]float64, at, _ int) { n = max(n, need(parts, at)) })
	}
	for k := range sup.kinds {
		each(sup.kinds[k].host, func(parts map[int]float64, at, _ int) {
			sup.kinds[k].driver = sup.kinds[k].driver || 10*need(parts, at) >= 9*n && n > 1
		})
		if sup.kinds[k].driver {
			sup.drivers.Add(k)
		}
	}
	return n
}

// offeringsOf returns the options of a pool that are worth starting a machine with.
func (s *search) offeringsOf(sup *supply, p int) []offering {
	sh := &s.market.pools[p]
	byUsers := map[string][]int{} // kept options of each set of users
	var offerings []offering
	kinds := bitset.New(len(sup.kinds)) // used again for each option, because few are kept
	var users []byte
	for _, o := range sh.byPrice {
		users = s.usersOf(sup, p, o, kinds, users[:0])
		if len(users) == 0 || !s.market.affordable(p, o) {
			continue
		}
		same := byUsers[string(users)]
		if s.market.dominated(sh, o, same) {
			continue
		}
		byUsers[string(users)] = append(same, o)
		offerings = append(offerings, offering{pool: p, option: o, price: sh.Options[o].Price, kinds: kinds.Clone()})
	}
	return offerings
}

// usersOf writes into kinds the kinds that may use the option. It appends to text, which is empty, these kinds and the shapes of which a
// pod fits, so equal options have equal text. It leaves text empty if no kind may use the option or no shape fits.
func (s *search) usersOf(sup *supply, p, o int, kinds bitset.Set, text []byte) []byte {
	pool := &s.market.pools[p]
	option := &pool.Options[o]
	clear(kinds)
	for k := range sup.kinds {
		if admits(sup.kinds[k].ways.Pools[p], o) {
			kinds.Add(k)
		}
	}
	if kinds.Empty() {
		return text
	}
	text = kinds.AppendText(text)
	some, bits := false, byte(0)
	for h := range sup.shapes {
		if h%8 == 0 && h > 0 {
			text, bits = append(text, bits), 0
		}
		if sup.shapes[h].whole.Fits(option.Allocatable) {
			some = true
			bits |= 1 << (h % 8)
		}
	}
	if !some {
		return text[:0]
	}
	return append(text, bits)
}

// special finds the lots that fit only large options, or only options with devices.
func (sup *supply) special(s *search) {
	for i := range sup.lots {
		l := &sup.lots[i]
		l.needsLarge, l.needsDevices = true, true
		for j := range sup.offerings {
			g := &sup.offerings[j]
			p := &s.market.pools[g.pool]
			o := &p.Options[g.option]
			if !g.kinds.Has(l.kind) || (o.Large || !l.needsLarge) && (p.devices[g.option] || !l.needsDevices) {
				continue
			}
			if sup.shapes[l.shape].whole.Fits(o.Allocatable) {
				l.needsLarge = l.needsLarge && o.Large
				l.needsDevices = l.needsDevices && p.devices[g.option]
			}
		}
	}
}

// dominated reports whether one of the kept options, of which none costs more, has at least as much of every resource.
func (m *market) dominated(p *supplyPool, o int, kept []int) bool {
	option := &p.Options[o]
	for _, k := range kept {
		other := &p.Options[k]
		// A machine with devices does not serve all pods that may use one without.
		if other.Large != option.Large || p.devices[k] && !p.devices[o] || drawsMore(other.Draws, option.Draws) {
			continue
		}
		more := true
		for d, n := range option.Allocatable {
			if other.Allocatable[d] < n || other.Charge[d] > option.Charge[d] && p.left[d] < capacity.Most {
				more = false
				break
			}
		}
		if more {
			return true
		}
	}
	return false
}

// price finds the worth of resources, and the values that follow from it.
func (sup *supply) price(s *search) {
	counts := make([]int, len(sup.demands))
	for i, it := range sup.demands {
		counts[i] = it.left
	}
	sup.before = counts
	sup.bound = s.boundFor(sup, counts)
	sup.u, sup.perAdd = sup.bound.Shared()
	sup.low = sup.bound.Low()
	if s.worth == nil {
		s.worth = sup.u
	}
	sup.perNode = nodeShare * s.market.unitPrice(sup)
	demand := make(capacity.Vector, len(sup.u))
	for _, it := range sup.demands {
		demand.Add(it.own, int64(it.left))
	}
	least := math.Inf(1)
	for _, g := range sup.offerings {
		least = min(least, g.price)
	}
	for d := range demand {
		if demand[d] > 0 {
			sup.dims = append(sup.dims, d)
		}
	}
	values := sup.bound.Values()
	for h := range sup.shapes {
		r := sup.shapes[h].request
		sup.shapes[h].value = max(values[r.Text()]+float64(1e-4*least*share(r, demand)), 1e-12)
	}
	for i := range sup.offerings {
		sup.offerings[i].measure(s, sup)
	}
	slices.SortStableFunc(sup.offerings, func(a, b offering) int { return cmp.Compare(b.promise, a.promise) })
}

// nodeShare is a share of the price of one core. While planning, this amount is added to the price of every machine, for costs that no price list has
// (kubelet, images, addresses). It keeps the search away from plans with hundreds of tiny machines, which all cost about the same.
const nodeShare = 0.05

// unitPrice returns the price of one unit of the problem's main resource (one core): its dual price or, if that is 0, its least price on
// any option.
func (m *market) unitPrice(sup *supply) float64 {
	unit := m.p.Unit
	if len(unit) == 0 {
		return 0
	}
	if p := bound.WorthOf(unit, sup.u); p > 0 {
		return p
	}
	least := math.Inf(1)
	for i := range sup.offerings {
		g := &sup.offerings[i]
		if n := unit.Times(m.pools[g.pool].Options[g.option].Allocatable, math.MaxInt32); n > 0 {
			least = min(least, g.price/float64(n))
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// share returns the largest share of the demand, over all resources, that one pod makes up.
func share(r, demand capacity.Vector) float64 {
	most := 0.0
	for d, n := range r {
		if n > 0 && demand[d] > 0 {
			most = max(most, float64(n)/float64(demand[d]))
		}
	}
	return most
}

// measure prepares the comparison of shapes on this offering.
func (g *offering) measure(s *search, sup *supply) {
	option := &s.market.pools[g.pool].Options[g.option]
	a := option.Allocatable
	full := 0.0
	for _, d := range sup.dims {
		full += float64(float64(max(0, min(a[d], capacity.Most/1024))) * sup.u[d])
	}
	if g.price+sup.perNode > 0 {
		g.promise = (full + sup.perAdd) / (g.price + sup.perNode)
	} else {
		g.promise = math.Inf(1)
	}
	g.weight = make([]float64, len(sup.dims))
	for i, d := range sup.dims {
		if a[d] <= 0 {
			continue
		}
		g.weight[i] = 0.05
		if full > 0 {
			g.weight[i] += float64(a[d]) * sup.u[d] / full
		}
	}
	for h := range sup.shapes {
		r := sup.shapes[h].request
		if !sup.shapes[h].whole.Fits(a) {
			continue
		}
		gs := offeringFit{shape: h}
		square := 0.0
		for i, d := range sup.dims {
			share := 0.0
			if r[d] > 0 && a[d] > 0 {
				share = g.weight[i] * float64(r[d]) / float64(a[d])
				square += float64(share * share)
			}
			g.asks, g.shares = append(g.asks, r[d]), append(g.shares, share)
		}
		length := max(math.Sqrt(square), 1e-12)
		for e, exponent := range exponents {
			gs.score[e] = power(sup.shapes[h].value, exponent) / length
		}
		g.shapes = append(g.shapes, gs)
	}
}

// forDevices reports whether some pods need machines with devices. These machines are needed in any case, and the room that is left on them
// decides which other machines are needed.
func (sup *supply) forDevices() bool {
	return slices.ContainsFunc(sup.lots, func(l lot) bool { return l.needsDevices })
}
