package packing

import (
	"slices"
)

// improve takes a few machines away, packs their pods anew and keeps what is cheaper, until the price is near the
// bound, nothing is gained any more, or the effort is spent.
func (s *solver) improve(m *market, drafts []*draft) []*draft {
	if len(drafts) == 0 {
		return drafts
	}
	if best, ok := s.exact(m, drafts); ok {
		return best
	}
	random := newRandom(drafts)
	total, floor := 0.0, 0.0
	for _, d := range drafts {
		total += d.price
		floor += worth(d.sum, m.u)
	}
	patience := 60 + 6*len(drafts)
	for idle := 0; idle < patience && s.effort > 0 && total > floor*1.002; idle++ {
		chosen := s.neighbours(m, drafts, random)
		better, gain := s.repack(m, drafts, chosen, random)
		if better == nil {
			continue
		}
		idle = 0
		total -= gain
		drafts = replaced(drafts, chosen, better)
	}
	return drafts
}

// neighbours draws one to six machines, the wasteful ones more often than the tight ones, as ascending indexes.
func (s *solver) neighbours(m *market, drafts []*draft, random *random) []int {
	n := min(1+random.below(6), len(drafts))
	var chosen []int
	for range n {
		best, most := -1, 0.0
		for range 3 {
			i := random.below(len(drafts))
			waste := drafts[i].price + m.perNode - worth(drafts[i].sum, m.u)
			if best < 0 || waste > most {
				best, most = i, waste
			}
		}
		if !slices.Contains(chosen, best) {
			chosen = append(chosen, best)
		}
	}
	slices.Sort(chosen)
	return chosen
}

// repack packs the pods of the chosen machines anew. It returns nil unless that is cheaper, and what it gains otherwise.
func (s *solver) repack(m *market, drafts []*draft, chosen []int, random *random) (better []*draft, gain float64) {
	g := &greedy{s: s, m: m, left: make([]int, len(s.left))}
	old, paid := 0.0, 0.0
	for _, i := range chosen {
		d := drafts[i]
		old += d.price + m.perNode
		paid += d.price
		for _, p := range d.pods {
			g.left[p.Class] += p.Count
		}
		s.refund(d)
	}
	g.exponents = exponents[random.below(len(exponents)):][:1]
	g.ceiling = old * (1 - 1e-9)
	mask := random.next()
	g.skip = func(i int) bool { return mask>>(uint(i)%64)&1 == 0 }
	g.run()
	complete := !slices.ContainsFunc(g.left, func(n int) bool { return n > 0 })
	if complete && g.cost < g.ceiling {
		for _, d := range g.drafts {
			paid -= d.price
		}
		return g.drafts, paid
	}
	for _, d := range g.drafts {
		s.refund(d)
	}
	for _, i := range chosen {
		s.charge(drafts[i])
	}
	return nil, 0
}

func (s *solver) refund(d *draft) {
	if sh := &s.pools[d.pool]; sh.limited {
		sh.left.Add(sh.Options[d.option].Charge, 1)
	}
}

func (s *solver) charge(d *draft) {
	if sh := &s.pools[d.pool]; sh.limited {
		sh.left.Add(sh.Options[d.option].Charge, -1)
	}
}

func replaced(drafts []*draft, chosen []int, by []*draft) []*draft {
	out := make([]*draft, 0, len(drafts)-len(chosen)+len(by))
	for i, d := range drafts {
		if !slices.Contains(chosen, i) {
			out = append(out, d)
		}
	}
	return append(out, by...)
}

// random is splitmix64 (Steele, Lea, Flood 2014). Its seed comes from the structure of the problem, so that the same
// problem is searched in the same way.
type random struct{ state uint64 }

func newRandom(drafts []*draft) *random {
	r := &random{state: uint64(len(drafts))}
	for _, d := range drafts {
		for _, n := range d.sum {
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
