package packing

import (
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/parallel"
)

// improve stops after `patience` tries without a gain of `worthwhile`, as a share of the price. If some pods need devices and the price is more than
// `far` times the bound, it stops only after at least `stubborn` tries for each machine.
const (
	patience   = 150
	stubborn   = 10
	far        = 1.015
	worthwhile = 3e-4
)

// One try uses a random half of the offerings, and no more than about twice fewGoods; the next try draws others.
const fewGoods = 60

// improve takes a few machines away, packs their pods again and keeps the result if it is cheaper, until the price is near the bound, the gain is too
// small, or the effort is spent.
func (s *search) improve(sup *supply, bins []*openBin) []*openBin {
	random := newRandom(bins)
	total := 0.0
	for _, b := range bins {
		total += b.price
	}
	floor := sup.bound.Value
	before := total
	teams := s.teams(sup)
	stubborn := stubborn
	if !sup.forDevices() {
		stubborn = 0
	}
	for tries := 0; s.market.effort > 0 && !s.p.stopped() && total > floor*1.002; tries += len(teams) {
		if tries >= patience && (total <= floor*far || tries >= stubborn*len(bins)) {
			if before-total < total*worthwhile {
				break
			}
			before, tries = total, 0
		}
		chosen := s.draw(sup, bins, len(teams), random)
		better := s.repackAll(teams, bins, chosen)
		var gone []int
		var by []*openBin
		for i, r := range better {
			s.market.effort -= r.effort
			if r.bins != nil {
				total -= r.gain
				gone, by = append(gone, chosen[i].bins...), append(by, r.bins...)
			}
		}
		if gone != nil {
			bins = replaced(bins, gone, by)
		}
	}
	return bins
}

// teamSize is the number of neighbourhoods that are packed again together. It is fixed, because the result must not depend on the number of
// threads.
const teamSize = 4

// worker is a solver with arrays of its own that packs one neighbourhood again.
type worker struct {
	s *search
	g *greedy
}

// teams returns one or several workers: only one if machines share limits or quotas, because the neighbourhoods then depend on each other.
func (s *search) teams(sup *supply) []worker {
	n := teamSize
	for _, p := range sup.pools {
		if s.market.pools[p].limited {
			n = 1
		}
	}
	if len(s.p.Quotas) > 0 {
		n = 1
	}
	out := make([]worker, n)
	for i := range out {
		out[i].s = s
		if n > 1 {
			m := *s.market
			m.selections = nil
			own := *s
			own.market, out[i].s = &m, &own
		}
		out[i].g = out[i].s.newGreedy(sup, make([]int, len(sup.lots)))
	}
	return out
}

// neighbourhood is a set of machines to pack again, with the random choices for this try.
type neighbourhood struct {
	bins      []int
	exponent  int
	roominess float64
	mask      uint64
	forced    bool
}

// draw returns random neighbourhoods that share no machine.
func (s *search) draw(sup *supply, bins []*openBin, n int, random *random) []neighbourhood {
	var out []neighbourhood
	taken := bitset.New(len(bins))
	for range n {
		p := neighbourhood{bins: s.neighbours(sup, bins, random, taken), exponent: random.below(len(exponents)), roominess: 1, mask: random.next()}
		if random.below(2) == 0 {
			p.roominess = roominess
		}
		p.forced = len(s.p.Devices) > 0 && random.below(2) == 0
		for k := len(sup.offerings); k > 4*fewGoods; k /= 2 {
			p.mask &= random.next()
		}
		if len(p.bins) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// repacked is the result for one neighbourhood: bins is nil if nothing better was found.
type repacked struct {
	bins   []*openBin
	gain   float64
	effort int
}

// repackAll packs every neighbourhood again, on as many threads as the problem allows.
func (s *search) repackAll(teams []worker, bins []*openBin, places []neighbourhood) []repacked {
	out := make([]repacked, len(places))
	work := func(i int) {
		t := &teams[i]
		before := t.s.market.effort
		out[i].bins, out[i].gain = t.s.repack(t.g, bins, &places[i])
		out[i].effort = before - t.s.market.effort
		t.s.market.effort = before
	}
	threads := min(max(1, s.p.Threads), len(places))
	if threads == 1 {
		for i := range places {
			work(i)
		}
		return out
	}
	parts := make([]func(), threads)
	for thread := range parts {
		parts[thread] = func() {
			for i := thread; i < len(places); i += threads {
				work(i)
			}
		}
	}
	parallel.Run(parts...)
	return out
}

// neighbours draws machines that are not taken yet, wasteful machines more often than others, and returns their indexes in ascending order.
func (s *search) neighbours(sup *supply, bins []*openBin, random *random, taken bitset.Set) []int {
	n := min(2+random.below(11), len(bins))
	relative := random.below(2) == 0
	var chosen []int
	for range n {
		best, most := -1, 0.0
		for range 3 {
			i := random.below(len(bins))
			waste := bins[i].price + sup.perNode - sup.worth(bins[i])
			if relative {
				waste /= bins[i].price + sup.perNode
			}
			if best < 0 || waste > most {
				best, most = i, waste
			}
		}
		if !taken.Has(best) {
			taken.Add(best)
			chosen = append(chosen, best)
		}
	}
	slices.Sort(chosen)
	return chosen
}

// worth returns the worth of the bin's pods.
func (sup *supply) worth(b *openBin) float64 {
	sum := 0.0
	for _, p := range b.loads {
		sum += float64(float64(p.n) * sup.shapes[sup.lots[p.lot].shape].value)
	}
	return sum
}

// repack packs the pods of the chosen machines again. It returns the new open bins and the gain if that is cheaper, and nil if not.
func (s *search) repack(g *greedy, bins []*openBin, p *neighbourhood) (better []*openBin, gain float64) {
	chosen := p.bins
	old, paid := 0.0, 0.0
	g.bins, g.cost = nil, 0
	for _, i := range chosen {
		b := bins[i]
		old += b.price + g.sup.perNode
		paid += b.price
		for _, l := range b.loads {
			g.restore(l.lot, l.n)
		}
		s.market.charge(b, -1)
	}
	g.exponents = append(g.exponents[:0], p.exponent)
	g.roominess = p.roominess
	g.ceiling = old * (1 - 1e-9)
	g.forced, g.skip = p.forced, func(i int) bool { return p.mask>>(uint(i)%64)&1 == 0 }
	g.run()
	complete := true
	for _, i := range chosen {
		for _, p := range bins[i].loads {
			complete = complete && g.left[p.lot] == 0
		}
	}
	if complete && g.cost < g.ceiling {
		for _, b := range g.bins {
			paid -= b.price
		}
		return g.bins, paid
	}
	for _, b := range g.bins {
		s.market.charge(b, -1)
	}
	for _, i := range chosen {
		s.market.charge(bins[i], 1)
		for _, p := range bins[i].loads {
			if g.left[p.lot] > 0 {
				g.remove(p.lot, g.left[p.lot])
			}
		}
	}
	return nil, 0
}

func replaced(bins []*openBin, chosen []int, by []*openBin) []*openBin {
	out := make([]*openBin, 0, len(bins)-len(chosen)+len(by))
	for i, b := range bins {
		if !slices.Contains(chosen, i) {
			out = append(out, b)
		}
	}
	return append(out, by...)
}

// random is splitmix64 (Steele, Lea, Flood 2014). Its seed comes from the structure of the problem, because the same problem must be
// searched in the same way.
type random struct{ state uint64 }

func newRandom(bins []*openBin) *random {
	r := &random{state: uint64(len(bins))}
	for _, b := range bins {
		for _, n := range b.sum {
			r.state = r.state*31 + uint64(n)
		}
	}
	return r
}

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *random) below(n int) int { return int(r.next() % uint64(n)) }
