package packing

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine/bitset"
)

// guests is the state of a machine's rules for further pods: its marks, and the counts and bounds of its groups.
type guests struct {
	bears, shuns bitset.Set
	count, most  []int
}

func (s *search) guestsOf(sup *supply, b *openBin) *guests {
	g := &guests{}
	for _, r := range b.host {
		g.add(r, 1, s.host.nGroups)
	}
	for _, p := range b.loads {
		g.add(sup.kinds[sup.lots[p.lot].kind].host, p.n, s.host.nGroups)
	}
	return g
}

func (g *guests) add(r *hostRules, n, groups int) {
	if r.none() {
		return
	}
	if g.count == nil {
		g.count, g.most = make([]int, groups), make([]int, groups)
		for i := range g.most {
			g.most[i] = math.MaxInt
		}
	}
	g.bears, g.shuns = union(g.bears, r.owns), union(g.shuns, r.rejects)
	for _, group := range r.groups {
		g.count[group] += n
	}
	for _, sp := range r.spread {
		g.most[sp.group] = min(g.most[sp.group], sp.most)
	}
}

// accept reports whether one more pod with the rules may join.
func (g *guests) accept(r *hostRules) bool {
	if r.none() || g.count == nil {
		return true
	}
	return !meets(r.rejects, g.bears) && !meets(r.owns, g.shuns) && takes(r, g.count, g.most)
}

// mostHosts bounds the machines that are compared for one pod of a machine that is given up.
const mostHosts = 24

// mostGuests is the number of pods above which giving up a machine is not tried, because it hardly ever saves money.
const mostGuests = 12

// closeBins removes each machine whose pods cost less on the other machines. It begins with the machine whose pods are worth least.
func (s *search) closeBins(sup *supply, bins []*openBin) []*openBin {
	order := make([]int, 0, len(bins))
	value := make([]float64, len(bins))
	for i, bin := range bins {
		value[i] = sup.worth(bin)
		pods := 0
		for _, p := range bin.loads {
			pods += p.n
		}
		if bin.price+sup.perNode > value[i]*1.02 && pods <= mostGuests {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(value[a], value[b]) })
	v := &visit{s: s, sup: sup, bins: slices.Clone(bins), guests: make([]*guests, len(bins))}
	failed := 0
	for _, i := range order {
		if s.market.effort <= s.p.Effort*4/5 || failed > 40 || s.p.stopped() {
			break
		}
		if v.give(i) {
			failed = 0
		} else {
			failed++
		}
	}
	return slices.DeleteFunc(v.bins, func(bin *openBin) bool { return bin == nil })
}

// squeeze puts pods that got no machine, because of limits, on the machines that were bought.
func (s *search) squeeze(sup *supply, left []int, bins []*openBin) []*openBin {
	v := &visit{s: s, sup: sup, bins: bins, guests: make([]*guests, len(bins))}
	for lot := range sup.lots {
		v.invite(lot, left, math.Inf(1))
	}
	return v.bins
}

// topUp puts further pods into the room of company, the machines of pods that have to share one, as long as these machines do not cost
// more.
func (s *search) topUp(sup *supply, company []*openBin, left []int) {
	if len(company) == 0 {
		return
	}
	v := &visit{s: s, sup: sup, bins: company, guests: make([]*guests, len(company))}
	order := make([]int, len(sup.lots))
	for i := range order {
		order[i] = i
	}
	value := func(lot int) float64 { return sup.shapes[sup.lots[lot].shape].value }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(value(b), value(a)) })
	for _, lot := range order {
		v.invite(lot, left, math.SmallestNonzeroFloat64)
	}
}

// invite places pods of the lot on the machines, one by one, as long as a pod raises the price by less than limit.
func (v *visit) invite(lot int, left []int, limit float64) {
	for ; left[lot] > 0; left[lot]-- {
		at, grown := v.host(lot, limit)
		if grown == nil {
			return
		}
		v.move(at, grown, lot)
	}
}

// visit is a try to place the pods of one machine on others.
type visit struct {
	s      *search
	sup    *supply
	bins   []*openBin
	guests []*guests
	next   int // the machine that host tries first; it changes from call to call
}

type earlier struct {
	at     int
	bin    *openBin
	guests *guests
}

// give removes machine i if its pods cost less on the other machines, and reports whether it did.
func (v *visit) give(i int) bool {
	gone := v.bins[i]
	v.bins[i] = nil
	v.s.market.charge(gone, -1)
	limit := (gone.price + v.sup.perNode) * (1 - 1e-9)
	var undo []earlier
	paid := 0.0
	for _, p := range gone.loads {
		for range p.n {
			at, grown := v.host(p.lot, limit-paid)
			if grown == nil {
				v.undo(undo)
				v.bins[i] = gone
				v.s.market.charge(gone, 1)
				return false
			}
			undo = append(undo, earlier{at, v.bins[at], v.guests[at]})
			paid += grown.price - v.bins[at].price
			v.move(at, grown, p.lot)
		}
	}
	return true
}

func (v *visit) undo(list []earlier) {
	for _, b := range slices.Backward(list) {
		v.s.market.charge(v.bins[b.at], -1)
		v.bins[b.at], v.guests[b.at] = b.bin, b.guests
		v.s.market.charge(b.bin, 1)
	}
}

func (v *visit) move(at int, grown *openBin, lot int) {
	v.s.market.charge(v.bins[at], -1)
	v.s.market.charge(grown, 1)
	grown.loads = slices.Clone(grown.loads)
	if i := slices.IndexFunc(grown.loads, func(l load) bool { return l.lot == lot }); i >= 0 {
		grown.loads[i].n++
	} else {
		grown.loads = append(grown.loads, load{lot, 1})
	}
	v.bins[at] = grown
	v.guests[at] = v.s.guestsOf(v.sup, grown)
}

// host finds the machine whose price rises least if a pod of the lot joins it. The rise has to be less than limit.
func (v *visit) host(lot int, limit float64) (int, *openBin) {
	l := &v.sup.lots[lot]
	kind := &v.sup.kinds[l.kind]
	request := v.sup.shapes[l.shape].whole
	at, best, least := -1, (*openBin)(nil), limit
	tried := 0
	for k := range v.bins {
		i := (v.next + k) % len(v.bins)
		b := v.bins[i]
		if b == nil || len(kind.ways.Pools[b.pool]) == 0 {
			continue
		}
		if v.guests[i] == nil {
			v.guests[i] = v.s.guestsOf(v.sup, b)
		}
		if !v.guests[i].accept(kind.host) {
			continue
		}
		v.s.market.use(1)
		v.s.market.charge(b, -1)
		grown := v.s.joined(b, kind.ways, kind.host, request, l.needsLarge, l.needsDevices)
		v.s.market.charge(b, 1)
		if grown == nil {
			continue
		}
		if cost := grown.price - b.price; cost < least {
			at, best, least = i, grown, cost
		}
		if tried++; tried == mostHosts || least <= 0 {
			v.next = i + 1
			break
		}
	}
	return at, best
}
