package packing

import (
	"slices"

	"tenon.sh/engine/bound"
)

// stepsForPod is the most effort that columns spends for each pod, in steps of bound.Fillings.
const stepsForPod = 2000

// columns buys other machines for the pods of the open bins: the fillings of the bound, rounded to whole machines. It returns the
// same open bins if these machines are not cheaper, or if the price is near the bound already.
func (s *search) columns(sup *supply, bins []*openBin) []*openBin {
	price := priceOf(bins)
	if s.p.Effort == 0 || price <= sup.bound.Value*nearBound || sup.apart || !sup.ruleless(s) {
		return bins
	}
	left := make([]int, len(sup.lots))
	var lots []int
	pods := 0
	for _, bin := range bins {
		for _, p := range bin.loads {
			left[p.lot] += p.n
			pods += p.n
		}
	}
	for lot, n := range left {
		if n > 0 {
			lots = append(lots, lot)
		}
	}
	if len(lots) > bound.MostKinds {
		return bins
	}
	effort := min(pods*stepsForPod, s.p.Effort*Comparisons)
	f := s.lotsBound(sup, lots, left, 0).Fillings(effort)
	if f == nil || s.p.stopped() {
		return bins
	}
	s.market.look(effort * looksPerComparison)
	sup.prove(s, bins, f.Value)
	s.market.chargeAll(bins, -1)
	var better []*openBin
	for _, b := range f.Whole() {
		loads := make([]load, 0, len(b.Loads))
		for _, l := range b.Loads {
			loads = append(loads, load{lots[l.Demand], l.Count})
		}
		bin := s.binOf(sup, sup.offerings[b.Supply].pool, loads)
		for range int(b.Machines) {
			if bin == nil || !s.market.spend(bin) {
				break
			}
			for _, p := range loads {
				left[p.lot] -= p.n
			}
			copied := *bin
			better = append(better, &copied)
		}
	}
	// Limits may forbid some of the machines; their pods get other machines.
	g := s.newGreedy(sup, left)
	g.run()
	better = append(better, g.bins...)
	if slices.ContainsFunc(left, func(n int) bool { return n > 0 }) || priceOf(better) >= price {
		s.market.chargeAll(better, -1)
		s.market.chargeAll(bins, 1)
		return bins
	}
	return better
}
