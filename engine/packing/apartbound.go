package packing

// apart is a bound of another kind, for so many pods of each demand. No machine that holds a pod costs less than the cheapest
// that does; where rules let a machine have only a few pods of some group, each of these has to pay for its part of one. Other
// pods may use what room is left: groups do not add up, the dearest counts.
func (s *solver) apart(sup *supply, counts []int) float64 {
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

// leastFor is the price of the cheapest option that holds a pod of the demand, wherever it was placed; 0 if there is none.
func (s *solver) leastFor(pools []int, d *demand) float64 {
	ways := s.p.Classes[d.class].Levels[d.level].Ways
	least, found := 0.0, false
	for _, p := range pools {
		pool := &s.pools[p]
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

// each lists what the rules bound on a machine: marks that only one pod may own, and groups of which it takes so many.
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
