package packing

import (
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/bound"
	"tenon.sh/engine/topology"
)

// boundFor returns a lower bound for the price of machines for n pods of each of the supply's demands.
func (s *search) boundFor(sup *supply, n []int) *bound.Bound {
	ways, demands := s.boundDemands(sup, n)
	p := bound.Problem{Demands: demands, Devices: make([]bool, len(s.p.Classes[0].Request)), Machines: sup.machines(n)}
	copy(p.Devices, s.p.Devices)
	p.Supplies = s.market.suppliesOf(sup.pools, ways)
	b := bound.Of(&p)
	b.Value = max(0, b.Value-s.p.Relief)
	b.Value = max(b.Value, s.apart(sup, n))
	return b
}

// suppliesOf returns the options of the pools that the ways admit.
func (m *market) suppliesOf(pools []int, ways []*Ways) (out []bound.Supply) {
	for _, pool := range pools {
		p := &m.pools[pool]
		for _, o := range p.byPrice {
			if p.Options[o].Covered { // the worth of resources is their price without commitments
				continue
			}
			users := bitset.New(len(ways))
			for i, w := range ways {
				if admits(w.Pools[pool], o) {
					users.Add(i)
				}
			}
			out = append(out, bound.Supply{Allocatable: p.Options[o].Allocatable, Price: p.Options[o].Price, Users: users})
		}
	}
	return out
}

// boundDemands returns the demands for the bound, and their ways. It does not use the domains that were chosen, because pods may also be
// placed in other domains. It keeps pods in a domain only if a spread puts them there in every plan (fixedShares).
func (pl *placement) boundDemands(sup *supply, counts []int) (known []*Ways, out []bound.Demand) {
	type key struct {
		way, shape int
		host       *hostRules // nil if a machine takes any number
	}
	index := map[key]int{}
	ways := map[*Ways]int{}
	add := func(w *Ways, class, n int, host *hostRules) {
		if n <= 0 {
			return
		}
		if _, ok := ways[w]; !ok {
			ways[w] = len(known)
			known = append(known, w)
		}
		k := key{ways[w], pl.shapeOf[class], host}
		at, ok := index[k]
		if !ok {
			at = len(out)
			index[k] = at
			out = append(out, bound.Demand{User: ways[w], Request: pl.reader.own[class], Most: host.most()})
		}
		out[at].Count += n
	}
	type part struct{ class, level int }
	count := map[part]int{}
	var parts []part
	for i, d := range sup.demands {
		p := part{d.class, d.level}
		if _, ok := count[p]; !ok {
			parts = append(parts, p)
		}
		count[p] += counts[i]
	}
	for _, p := range parts {
		n, host := count[p], pl.loosest(p.class, p.level)
		for _, fixed := range pl.fixedShares(p.class, p.level, n) {
			add(fixed.ways, p.class, fixed.n, host)
			n -= fixed.n
		}
		add(pl.p.Classes[p.class].Levels[p.level].Ways, p.class, n, host)
	}
	return known, out
}

// loosest returns, of the class's rules in all domains, the rules under which a machine takes the most of its pods, nil if it takes any
// number. The rules differ between domains because of residents.
func (pl *placement) loosest(class, level int) (loosest *hostRules) {
	for _, choice := range pl.choicesOf(class, level) {
		host := pl.classes[class].levels[level].hostIn(choice)
		switch most := host.most(); {
		case most == 0:
			return nil
		case loosest == nil || most > loosest.most():
			loosest = host
		}
	}
	return loosest
}

type fixedShare struct {
	ways *Ways
	n    int
}

// fixedShares returns, for each domain, how many of the n pods of a class every plan has to put there, and the ways there: of k domains
// within a skew of each other, none may have less than (n − (k−1)·skew)/k.
func (pl *placement) fixedShares(class, level, n int) []fixedShare {
	c := &pl.p.Classes[class]
	rules := c.Levels[level].Rules
	if rules == nil || n != c.Count {
		return nil
	}
	for _, sp := range rules.Spread {
		g := &pl.p.Layout.Groups[sp.Group]
		if g.Key == topology.Host || !sp.Self || g.Filter >= 0 || pl.members[sp.Group] != 1 || slices.Max(append(g.Count, 0)) > 0 || pl.p.hasResidents(sp.Group) {
			continue
		}
		there := pl.world.Count(sp.Group)
		k := 0
		for _, m := range there {
			if m >= 0 {
				k++
			}
		}
		least := (n - (k-1)*sp.MaxSkew + k - 1) / max(k, 1)
		if k < 2 || least <= 0 || least*k > n {
			continue
		}
		v := pl.viewOf([]int{g.Key})
		var out []fixedShare
		for domain, at := range v.domains {
			if d := at[g.Key]; d >= 0 && there[d] >= 0 {
				if ways := pl.narrowed(c.Levels[level].Ways, v, domain); ways != nil {
					out = append(out, fixedShare{ways, least})
				}
			}
		}
		return out
	}
	return nil
}
