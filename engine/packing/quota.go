package packing

import (
	"slices"
)

// quotasHold reports whether the quotas have enough units left for the draws.
func (s *solver) quotasHold(draws []Draw) bool {
	for _, d := range draws {
		if d.Units > s.quotas[d.Quota] {
			return false
		}
	}
	return true
}

// deduct takes the draws off the quotas n times; -1 gives them back.
func (s *solver) deduct(draws []Draw, n int) {
	for _, d := range draws {
		s.quotas[d.Quota] -= n * d.Units
	}
}

// drawsOf returns the units that the open bin takes of quotas: the draws of its option or, if it has to list several options, the most that
// any of them takes of each quota.
func (s *solver) drawsOf(b *openBin) []Draw {
	if b.draws != nil {
		return b.draws
	}
	return s.pools[b.pool].Options[b.option].Draws
}

// drawsMore reports whether a takes more units of some quota than b.
func drawsMore(a, b []Draw) bool {
	return slices.ContainsFunc(a, func(d Draw) bool {
		return !slices.ContainsFunc(b, func(other Draw) bool { return other.Quota == d.Quota && other.Units >= d.Units })
	})
}

// mostDraws returns, for each quota, the most units that an option of the list takes.
func (p *supplyPool) mostDraws(list []int) []Draw {
	if len(list) == 1 {
		return p.Options[list[0]].Draws
	}
	var out []Draw
	for _, o := range list {
		for _, d := range p.Options[o].Draws {
			if i := slices.IndexFunc(out, func(other Draw) bool { return other.Quota == d.Quota }); i < 0 {
				out = append(out, d)
			} else {
				out[i].Units = max(out[i].Units, d.Units)
			}
		}
	}
	return out
}

// cutToQuotas shortens lists until the quotas have enough units for any listed options, because the cloud may choose any of them. The
// chosen options alone are within the quotas. Afterwards, quotas counts the lists.
func (s *solver) cutToQuotas() {
	if len(s.quotas) == 0 {
		return
	}
	copy(s.quotas, s.p.Quotas)
	for i := range s.machines {
		s.deduct(s.pools[s.machines[i].Pool].mostDraws(s.machines[i].Listed), 1)
	}
	for i := range s.machines {
		m := &s.machines[i]
		pool := &s.pools[m.Pool]
		draws := pool.mostDraws(m.Listed)
		if !slices.ContainsFunc(draws, func(d Draw) bool { return s.quotas[d.Quota] < 0 }) {
			continue
		}
		s.deduct(draws, -1)
		if m.varied {
			m.Listed = s.varietyBox(s.bins[i], 0)
			m.Chosen = m.Listed[0]
		} else {
			m.Listed = s.withoutOverdrawn(pool, m)
		}
		s.deduct(pool.mostDraws(m.Listed), 1)
	}
}

// withoutOverdrawn returns the machine's list without each type that has an option which takes more than the chosen option of a quota that is too
// small. The caller has given back the machine's own units.
func (s *solver) withoutOverdrawn(p *supplyPool, m *Machine) []int {
	chosen := &p.Options[m.Chosen]
	out := map[int]bool{} // types
	for _, o := range m.Listed {
		out[p.Options[o].Type] = out[p.Options[o].Type] || !s.quotasHold(p.Options[o].Draws) && drawsMore(p.Options[o].Draws, chosen.Draws)
	}
	if out[chosen.Type] {
		return []int{m.Chosen}
	}
	return slices.DeleteFunc(m.Listed, func(o int) bool { return out[p.Options[o].Type] })
}
