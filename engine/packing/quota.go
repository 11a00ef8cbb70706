package packing

import (
	"slices"
)

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

// cutToQuotas shortens lists until the quotas have enough units for any listed options, because the cloud may choose any of them. The chosen options
// alone are within the quotas. Afterwards, market.quotas is reduced by the most that each list may take.
func (l *listing) cutToQuotas() {
	if len(l.market.quotas) == 0 {
		return
	}
	copy(l.market.quotas, l.p.Quotas)
	for i := range l.machines {
		l.market.deduct(l.market.pools[l.machines[i].Pool].mostDraws(l.machines[i].Listed), 1)
	}
	for i := range l.machines {
		m := &l.machines[i]
		pool := &l.market.pools[m.Pool]
		draws := pool.mostDraws(m.Listed)
		if !slices.ContainsFunc(draws, func(d Draw) bool { return l.market.quotas[d.Quota] < 0 }) {
			continue
		}
		l.market.deduct(draws, -1)
		if m.varied {
			m.Listed = l.market.varietyBox(l.bins[i], 0)
			m.Chosen = m.Listed[0]
		} else {
			m.Listed = l.market.withoutOverdrawn(pool, m)
		}
		l.market.deduct(pool.mostDraws(m.Listed), 1)
	}
}

// withoutOverdrawn returns the machine's list without the types that overdraw a quota: some option of the type takes more units than the chosen
// option, and the quota is too small for that. The caller has given back the machine's own units.
func (m *market) withoutOverdrawn(p *supplyPool, bought *Machine) []int {
	chosen := &p.Options[bought.Chosen]
	out := map[int]bool{} // types
	for _, o := range bought.Listed {
		out[p.Options[o].Type] = out[p.Options[o].Type] || !m.quotasHold(p.Options[o].Draws) && drawsMore(p.Options[o].Draws, chosen.Draws)
	}
	if out[chosen.Type] {
		return []int{bought.Chosen}
	}
	return slices.DeleteFunc(bought.Listed, func(o int) bool { return out[p.Options[o].Type] })
}
