package packing

import (
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/parallel"
)

// improve gives up once so many tries together have not gained this share of the price; as long as the price is far above
// the bound, only after so many tries for each machine.
const (
	patience   = 150
	stubborn   = 10
	far        = 1.015
	worthwhile = 3e-4
)

// fewGoods is about how many options are looked at in one try; others are drawn the next time.
const fewGoods = 60

// searchLocally finds cheaper machines for the pods of the open bins: exactly where that can be done, or else in steps, until the price
// is near the bound, nothing is gained any more, or the effort is spent.
func (s *solver) searchLocally(sup *supply, bins []*openBin) []*openBin {
	if len(bins) == 0 {
		return bins
	}
	s.effort = s.p.Effort // the first machines had to be found in any case
	if best, ok := s.exact(sup, bins); ok {
		return best
	}
	bins = s.improve(sup, bins)
	if better := s.columns(sup, bins); better != nil {
		return s.improve(sup, better)
	}
	return bins
}

// improve takes a few machines away, packs their pods anew and keeps what is cheaper, as often as that pays.
func (s *solver) improve(sup *supply, bins []*openBin) []*openBin {
	bins = s.closeBins(sup, bins)
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
	for tries := 0; s.effort > 0 && !s.p.stopped() && total > floor*1.002; tries += len(teams) {
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
			s.effort -= r.effort
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

// teamSize is how many places of the plan are looked at together. It is fixed, so that the result does not depend on how
// many of them are really worked on at a time.
const teamSize = 4

// worker repacks one place of the plan, with a solver and arrays of its own.
type worker struct {
	s *solver
	g *greedy
}

// teams are one or several: where limits or quotas are shared, places hang together and are looked at one by one.
func (s *solver) teams(sup *supply) []worker {
	n := teamSize
	for _, p := range sup.pools {
		if s.pools[p].limited {
			n = 1
		}
	}
	if len(s.p.Quotas) > 0 {
		n = 1
	}
	out := make([]worker, n)
	for i := range out {
		own := *s
		own.selections = nil
		out[i] = worker{s: &own, g: nil}
		if n == 1 {
			out[i].s = s
		}
		out[i].g = out[i].s.newGreedy(sup, make([]int, len(sup.lots)))
	}
	return out
}

// neighbourhood is some machines that are to be packed anew, and the chance that goes with it.
type neighbourhood struct {
	bins      []int
	exponent  int
	roominess float64
	mask      uint64
	forced    bool
}

// draw draws places that share no machine.
func (s *solver) draw(sup *supply, bins []*openBin, n int, random *random) []neighbourhood {
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

// repacked is what became of one neighbourhood: nil open bins if nothing better was found.
type repacked struct {
	bins   []*openBin
	gain   float64
	effort int
}

// repackAll looks at every place, on as many threads as the problem allows.
func (s *solver) repackAll(teams []worker, bins []*openBin, places []neighbourhood) []repacked {
	out := make([]repacked, len(places))
	work := func(i int) {
		t := &teams[i]
		before := t.s.effort
		out[i].bins, out[i].gain = t.s.repack(t.g, bins, &places[i])
		out[i].effort = before - t.s.effort
		t.s.effort = before
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

// neighbours draws some machines that are not taken yet, the wasteful ones more often than the tight ones, as ascending
// indexes.
func (s *solver) neighbours(sup *supply, bins []*openBin, random *random, taken bitset.Set) []int {
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

// worth is what the bin's pods are worth.
func (sup *supply) worth(b *openBin) float64 {
	sum := 0.0
	for _, p := range b.loads {
		sum += float64(float64(p.n) * sup.shapes[sup.lots[p.lot].shape].value)
	}
	return sum
}

// repack packs the pods of the chosen machines anew. It returns nil unless that is cheaper, and what it gains otherwise.
func (s *solver) repack(g *greedy, bins []*openBin, p *neighbourhood) (better []*openBin, gain float64) {
	chosen := p.bins
	old, paid := 0.0, 0.0
	g.bins, g.cost = nil, 0
	for _, i := range chosen {
		b := bins[i]
		old += b.price + g.m.perNode
		paid += b.price
		for _, l := range b.loads {
			g.restore(l.lot, l.n)
		}
		s.charge(b, -1)
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
		s.charge(b, -1)
	}
	for _, i := range chosen {
		s.charge(bins[i], 1)
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

// random is splitmix64 (Steele, Lea, Flood 2014). Its seed comes from the structure of the problem, so that the same
// problem is searched in the same way.
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
