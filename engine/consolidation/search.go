package consolidation

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/parallel"
)

// Search removes machines, one or a few at a time, as long as that pays: their price within the horizon has to exceed the price of the new machines
// and the cost of moving their pods. The cost of moving a pod is added once, even if the search changes its new place later. So each step lowers the
// total cost, and the search terminates.
//
// First it removes machines whose pods all find room on others, in the order of waste divided by the cost of moving their pods, highest first. Next
// are machines whose pods find room on others and on cheaper new ones. Last are sets of machines that smaller or fewer ones can replace.
//
// The first removals decide how much room is left for the later ones. Small problems therefore try several orders and keep the state that gains most;
// only that state is searched for sets of several machines.
func Search(p *Problem) *Result {
	weights := []weight{whole, root, none}
	if len(p.Machines) > fewMachines {
		weights = weights[:1]
	}
	tried := make([]*search, len(weights))
	var parts []func()
	for i, w := range weights {
		parts = append(parts, func() {
			tried[i] = newSearch(p, w)
			tried[i].alone()
		})
	}
	if p.Threads > 1 {
		parallel.Run(parts...)
	} else {
		for _, part := range parts {
			part()
		}
	}
	best := tried[0]
	for _, s := range tried[1:] {
		if s.gain() > best.gain()*(1+1e-9) {
			best = s
		}
	}
	best.together()
	return best.result()
}

// alone looks at the machines one by one.
func (s *search) alone() {
	for _, j := range s.ranked() {
		s.remove(j)
	}
	for _, j := range s.ranked() {
		s.replace([]int{j})
	}
}

// fewMachines is the number of machines up to which several orders are tried.
const fewMachines = 1000

// weight is the influence of the cost of moving pods on the order of machines.
type weight int

const (
	whole weight = iota // saving for each dollar of it
	root
	none
)

func (s *search) weigh(cost float64) float64 {
	switch s.weight {
	case whole:
		return cost
	case root:
		return math.Sqrt(cost)
	}
	return 1
}

// gain returns the saving of the state within the horizon, less the cost of moves, in USD.
func (s *search) gain() float64 {
	sum := -s.paid * s.p.Horizon
	for _, j := range s.gone {
		sum += float64(s.p.Machines[j].Price*s.p.Horizon) - s.p.Machines[j].Cost
	}
	return sum
}

// search holds the state that becomes cheaper step by step.
type search struct {
	p            *Problem
	worth        []float64 // of one pod of each class
	size         []float64
	asks         [][]ask
	state        []machine
	order        []int        // machines that take pods, the fullest first
	blocks       []block      // the machines of order, in blocks
	blockOf      []int        // the block of each machine; machines that take no pods are in none
	open         []bitset.Set // of each class: the blocks that may have room for a pod of it; nil before the first is looked for
	options      []int        // cheapest first
	promising    []int        // the options, those first that may hold the most worth for the price
	most         []float64    // of each option: the greatest worth of pods on it
	gone         []int
	paid         float64
	left         []int // the units left of each cap
	later        []Lot
	putOff       []Lot
	trail        []move
	effort       int
	weight       weight
	inTrial      []bool          // machines that an undo of the trial would change
	room         capacity.Vector // scratch of fill
	kinds        []Lot           // scratch of fill
	counts, best []int           // scratch of fill and several
}

// machine is the present state of a machine.
type machine struct {
	free  capacity.Vector
	gone  bool
	loads []load
	kinds []Lot
}

// load is n pods of a class that ran on the machine with index from.
type load struct{ class, from, n int }

// move is n pods that were placed on the machine with index to.
type move struct {
	load
	to int
}

func newSearch(p *Problem, weight weight) *search {
	s := &search{p: p, weight: weight, effort: p.Effort, inTrial: make([]bool, len(p.Machines)), left: slices.Clone(p.Caps)}
	scale := make([]float64, len(p.Worth))
	for d := range scale {
		most := int64(1)
		for i := range p.Machines {
			most = max(most, p.Machines[i].Free[d])
		}
		for i := range p.Classes {
			most = max(most, p.Classes[i].Request[d])
		}
		scale[d] = 1 / float64(most)
	}
	for i := range p.Classes {
		s.worth = append(s.worth, dot(p.Classes[i].Request, p.Worth))
		s.size = append(s.size, dot(p.Classes[i].Request, scale))
		s.asks = append(s.asks, asksOf(p.Classes[i].Request))
	}
	room := make([]float64, len(p.Machines))
	s.state, s.order = make([]machine, len(p.Machines)), make([]int, 0, len(p.Machines))
	for i := range p.Machines {
		m := &p.Machines[i]
		s.state[i].kinds = slices.Clone(m.Kinds)
		s.state[i].loads = slices.Grow(s.state[i].loads, len(m.Pods)) // nil without any
		for _, lot := range m.Pods {
			s.state[i].loads = append(s.state[i].loads, load{lot.Of, i, lot.N})
		}
		if m.Takes {
			room[i] = dot(m.Free, scale)
			s.order = append(s.order, i)
		}
	}
	slices.SortStableFunc(s.order, func(a, b int) int { return cmp.Compare(room[a], room[b]) })
	s.blockOf = slices.Repeat([]int{-1}, len(p.Machines))
	s.readBlocks()
	for o := range p.Options {
		s.options = append(s.options, o)
		s.most = append(s.most, mostWorth(p.Options[o].Allocatable, p.Worth))
	}
	s.open = make([]bitset.Set, len(p.Classes))
	slices.SortStableFunc(s.options, func(a, b int) int { return cmp.Compare(p.Options[a].Price, p.Options[b].Price) })
	s.promising = slices.Clone(s.options)
	slices.SortStableFunc(s.promising, func(a, b int) int {
		return cmp.Compare(s.most[b]*p.Options[a].Price, s.most[a]*p.Options[b].Price)
	})
	return s
}

func asksOf(request capacity.Vector) []ask {
	var out []ask
	for d, n := range request {
		if n > 0 {
			out = append(out, ask{d, n})
		}
	}
	return out
}

func dot(v capacity.Vector, u []float64) float64 {
	sum := 0.0
	for d, n := range v {
		if n > 0 && n < capacity.Most {
			sum += float64(float64(n) * u[d])
		}
	}
	return sum
}

// mostWorth returns the most that pods on a machine of this size may be worth.
func mostWorth(v capacity.Vector, worth []float64) float64 {
	for d, n := range v {
		if n >= capacity.Most && worth[d] > 0 {
			return math.Inf(1)
		}
	}
	return dot(v, worth)
}

// waste returns the price of the machine less the worth of its pods.
func (s *search) waste(j int) float64 {
	sum := s.p.Machines[j].Price
	for _, l := range s.state[j].loads {
		sum -= float64(float64(l.n) * s.worth[l.class])
	}
	return sum
}

// margin returns the least saving, in USD per hour, for which machines of this price are removed. The saving also has to cover the cost of moves.
func (s *search) margin(price float64) float64 { return max(s.p.Floor, price*s.p.Share) }

// ranked returns the machines that may still be removed, by waste divided by the cost of moving their pods, highest first.
func (s *search) ranked() []int {
	var out []int
	rank := make([]float64, len(s.state))
	for j := range s.state {
		if m := &s.p.Machines[j]; m.Goes && !s.state[j].gone {
			rank[j] = s.waste(j) / s.weigh(m.Cost+1e-9)
			out = append(out, j)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(rank[b], rank[a]) })
	return out
}

// remove removes the machine if all its pods find room on other machines and the move pays.
func (s *search) remove(j int) {
	m := &s.p.Machines[j]
	if s.p.Horizon*(m.Price-s.margin(m.Price)) < m.Cost {
		return
	}
	left := s.take([]int{j})
	if s.spread(left, true) && s.allowed([]int{j}) {
		s.commit([]int{j}, 0)
		return
	}
	s.undo([]int{j})
}

// allowed reports whether the caps allow the removal of the machines; if not, it adds the machines to putOff. Some of the machines may be removed now
// and the others later, if the whole caps would allow each of them alone.
func (s *search) allowed(gone []int) bool {
	later := s.beyond(gone)
	if len(later) == 0 || len(later) < len(gone) && !slices.ContainsFunc(gone, func(j int) bool { return s.short(j, s.p.Caps) >= 0 }) {
		return true
	}
	for _, j := range gone {
		s.putOff = append(s.putOff, Lot{j, later[0].N})
	}
	return false
}

// beyond returns the machines for which the caps leave no room if the others are removed, each with its cap, as in Result.Later.
func (s *search) beyond(gone []int) (out []Lot) {
	before := slices.Clone(s.left)
	for _, j := range gone {
		if cap := s.short(j, s.left); cap >= 0 {
			out = append(out, Lot{j, cap})
		} else {
			s.use(j)
		}
	}
	copy(s.left, before)
	return out
}

// short returns a cap that has fewer units left than the machine uses. It returns -1 if there is none.
func (s *search) short(j int, left []int) int {
	for _, u := range s.p.Machines[j].Uses {
		if left[u.Of] < u.N {
			return u.Of
		}
	}
	return -1
}

// use subtracts the units that the machine uses from the caps.
func (s *search) use(j int) {
	for _, u := range s.p.Machines[j].Uses {
		s.left[u.Of] -= u.N
	}
}

// take marks the machines as gone and returns their loads, those of the largest pods first.
func (s *search) take(gone []int) []load {
	var out []load
	for _, j := range gone {
		s.state[j].gone = true
		s.inTrial[j] = s.state[j].loads != nil
		out = append(out, s.state[j].loads...)
	}
	slices.SortStableFunc(out, func(a, b load) int {
		return cmp.Or(cmp.Compare(s.size[b.class], s.size[a.class]), cmp.Compare(a.class, b.class))
	})
	return out
}

// spread puts the loads on machines that are not removed. Pods without room stay in the list. If all is true, spread stops at the first pod without
// room and returns false.
func (s *search) spread(loads []load, all bool) bool {
	for i := range loads {
		l := &loads[i]
		s.place(l)
		if l.n > 0 && all {
			return false
		}
	}
	return true
}

// place puts the pods of the load on machines with room, the fullest first. A block without room for a class is not searched again for this class,
// because machines that are not removed never become emptier.
func (s *search) place(l *load) {
	c := &s.p.Classes[l.class]
	asks, dims := s.asks[l.class], len(s.p.Worth)
	open := s.open[l.class]
	if open == nil {
		open = bitset.Full(len(s.blocks))
		s.open[l.class] = open
	}
	for b := open.Next(0); b >= 0; b = open.Next(b + 1) {
		if !fits(asks, s.blocks[b].most) {
			open.Remove(b)
			continue
		}
		before := l.n
		for at, i := range s.blocks[b].machines {
			s.effort--
			if !fits(asks, s.blocks[b].room[at*dims:][:dims]) || s.state[i].gone || !c.Where.Has(i) {
				continue
			}
			m := &s.state[i]
			if n := min(c.Request.Times(m.free, l.n), m.space(c)); n > 0 {
				s.put(load{l.class, l.from, n}, i)
				l.n -= n
			}
			if l.n == 0 {
				return
			}
		}
		if l.n == before && !slices.ContainsFunc(s.blocks[b].machines, func(i int) bool { return s.inTrial[i] }) {
			s.tighten(&s.blocks[b])
			open.Remove(b)
		}
	}
}

// ask is a pod's request for one resource.
type ask struct {
	resource int
	n        int64
}

// fits reports whether the room holds the requests.
func fits(asks []ask, room []int64) bool {
	for _, a := range asks {
		if a.n > room[a.resource] {
			return false
		}
	}
	return true
}

// block is a number of machines that are about equally full.
type block struct {
	machines []int
	room     []int64         // left on each machine, side by side because it is read all the time
	most     capacity.Vector // of each resource, the most that any machine of the block has left
	stale    bool            // most may be too high
}

// blockSize is the number of machines of a block.
const blockSize = 32

func (s *search) readBlocks() {
	dims := len(s.p.Worth)
	for machines := range slices.Chunk(s.order, blockSize) {
		b := block{machines: machines, room: make([]int64, dims*len(machines)), most: make(capacity.Vector, dims), stale: true}
		for at, i := range machines {
			s.blockOf[i] = len(s.blocks)
			s.state[i].free = b.room[at*dims:][:dims:dims]
			copy(s.state[i].free, s.p.Machines[i].Free)
		}
		s.tighten(&b)
		s.blocks = append(s.blocks, b)
	}
}

// tighten computes most again if it is stale. It must not run while a trial changes the block's machines.
func (s *search) tighten(b *block) {
	if !b.stale {
		return
	}
	b.stale = false
	clear(b.most)
	for _, i := range b.machines {
		m := &s.state[i]
		if m.gone {
			continue
		}
		for d, n := range m.free {
			b.most[d] = max(b.most[d], n)
		}
	}
}

// space returns the number of further pods of the class's kind that the machine takes.
func (m *machine) space(c *Class) int {
	if c.Kind < 0 {
		return math.MaxInt
	}
	for _, k := range m.kinds {
		if k.Of == c.Kind {
			return max(0, c.Most-k.N)
		}
	}
	return c.Most
}

func (m *machine) tally(kind, n int) {
	for i := range m.kinds {
		if m.kinds[i].Of == kind {
			m.kinds[i].N += n
			return
		}
	}
	m.kinds = append(m.kinds, Lot{kind, n})
}

func (s *search) put(l load, to int) {
	m := &s.state[to]
	c := &s.p.Classes[l.class]
	m.free.Add(c.Request, -int64(l.n))
	if c.Kind >= 0 {
		m.tally(c.Kind, l.n)
	}
	m.loads = append(m.loads, l)
	s.inTrial[to] = true
	s.trail = append(s.trail, move{l, to})
}

// undo reverses the trial.
func (s *search) undo(gone []int) {
	for _, x := range slices.Backward(s.trail) {
		m := &s.state[x.to]
		c := &s.p.Classes[x.class]
		m.free.Add(c.Request, int64(x.n))
		if c.Kind >= 0 {
			m.tally(c.Kind, -x.n)
		}
		m.loads = m.loads[:len(m.loads)-1]
		s.inTrial[x.to] = false
	}
	s.trail = s.trail[:0]
	for _, j := range gone {
		s.state[j].gone, s.inTrial[j] = false, false
	}
}

// commit makes the trial the state. Paid is the price of the new machines.
func (s *search) commit(gone []int, paid float64) {
	for _, x := range s.trail {
		s.inTrial[x.to] = false
		s.blocks[s.blockOf[x.to]].stale = true
	}
	s.trail = s.trail[:0]
	for _, j := range gone {
		s.state[j].loads, s.inTrial[j] = nil, false
		if b := s.blockOf[j]; b >= 0 {
			s.blocks[b].stale = true
		}
		if cap := s.short(j, s.left); cap >= 0 {
			s.later = append(s.later, Lot{j, cap})
		} else {
			s.use(j)
		}
		s.gone = append(s.gone, j)
	}
	s.paid += paid
}

// result lists the present places of the pods whose machines are removed.
func (s *search) result() *Result {
	out := &Result{Gone: s.gone, Later: s.later, Paid: s.paid, PutOff: s.putOff}
	for i := range s.state {
		for _, l := range s.state[i].loads {
			if l.from != i {
				out.Placed = append(out.Placed, Placed{l.class, l.from, i, l.n})
			}
		}
	}
	return out
}
