package packing

// apart returns a lower bound for the price of machines for the given number of pods of each demand. It uses the rules between pods: if a machine may
// have only n pods of a group, each of these pods pays for 1/n of the cheapest machine that holds it. The sums of several groups must not be added,
// because pods of other groups may use the rest of a machine. So the bound is the sum of the dearest group.
func (s *search) apart(sup *supply, counts []int) float64 {
	marks, groups := map[int]float64{}, map[int]float64{}
	for i, d := range sup.demands {
		if counts[i] == 0 || d.host.none() {
			continue
		}
		price := -1.0
		d.host.each(func(byMark bool, at, most int) {
			if price < 0 {
				price = float64(counts[i]) * s.leastFor(sup.pools, d)
			}
			if byMark {
				marks[at] += price / float64(most)
			} else {
				groups[at] += price / float64(most)
			}
		})
	}
	most := 0.0
	for _, parts := range []map[int]float64{marks, groups} {
		for _, sum := range parts {
			most = max(most, sum)
		}
	}
	return most * (1 - 1e-12)
}

// leastFor returns the price of the cheapest option that holds a pod of the demand in any domain. It returns 0 if there is none.
func (s *search) leastFor(pools []int, d *demand) float64 {
	ways := s.p.Classes[d.class].Levels[d.level].Ways
	least, found := 0.0, false
	for _, p := range pools {
		pool := &s.market.pools[p]
		for _, o := range pool.byPrice {
			if option := &pool.Options[o]; admits(ways.Pools[p], o) && d.request.Fits(option.Allocatable) {
				if !found || option.Price < least {
					least, found = option.Price, true
				}
				break
			}
		}
	}
	return least
}

// each calls f for each mark that only one pod on a machine may own, and for each group that limits its pods on a machine. The argument `most` is
// that limit.
func (r *hostRules) each(f func(byMark bool, at, most int)) {
	if r.owns != nil && r.rejects != nil {
		for b := r.owns.Next(0); b >= 0; b = r.owns.Next(b + 1) {
			if r.rejects.Has(b) {
				f(true, b, 1)
			}
		}
	}
	for _, sp := range r.spread {
		if sp.self {
			f(false, sp.group, sp.most)
		}
	}
}
