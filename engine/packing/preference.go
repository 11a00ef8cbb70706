package packing

import (
	"slices"

	"tenon.sh/engine/bound"
)

// solvePreferences finds out which preferences about single machines are worth their price. The price is known only after machines are bought: a
// machine for each pod costs nothing extra for a few pods among many others, and much for many equal pods. So the problem is solved without these
// preferences for new machines, then with all of them. If all of them do not lower the total, it is solved with the preferences for which there may
// be enough machines in any case. The solution with the least total wins. The total is the price of machines and the Miss of pods.
func (p *Problem) solvePreferences() *solver {
	none := p.granting(func(int) bool { return false })
	best := none.solve()
	worth, bound := best.search.worth, best.search.bound
	if len(best.listing.machines) == 0 {
		return best // no pod needs a machine, and no machine is bought for a preference alone
	}
	least := best.total(p, worth)
	machines := p.machinesAsked()
	enough := len(p.Nodes) + len(best.listing.machines)
	some, all := 0, 0
	for c := range p.Classes {
		if p.Classes[c].prefers() {
			all++
			if machines[c] <= enough {
				some++
			}
		}
	}
	try := func(grant func(class int) bool) bool {
		if p.spent() {
			return false
		}
		s := p.granting(grant).solve()
		total := s.total(p, worth)
		if !slices.Equal(s.without(), best.without()) || total >= least*(1-noise) {
			return false
		}
		best, least = s, total
		return true
	}
	if !try(func(int) bool { return true }) && some > 0 && some < all {
		try(func(c int) bool { return machines[c] <= enough })
	}
	best.search.bound, best.search.worth = min(best.search.bound, bound), worth // the bound must also hold without preferences
	return best
}

// noise is the share of a price below which a difference may be a rounding error.
const noise = 1e-9

// prefers reports whether the class's first level has a preference about single machines.
func (c *Class) prefers() bool { return len(c.Levels) > 1 && c.Levels[0].Lone }

// hasPreferences reports whether some class has preferences about single machines in a Weighted problem.
func (p *Problem) hasPreferences() bool {
	return p.Weighted && slices.ContainsFunc(p.Classes, func(c Class) bool { return c.prefers() })
}

// granting returns the problem with the preferences of the classes for which grant returns true. The preferences of other classes apply only on
// existing nodes.
func (p *Problem) granting(grant func(class int) bool) *Problem {
	out := *p
	out.Classes = slices.Clone(p.Classes)
	nowhere := &Ways{Pools: make([][]Way, len(p.Pools))}
	for c := range out.Classes {
		if class := &out.Classes[c]; class.prefers() && !grant(c) {
			class.Levels = slices.Clone(class.Levels)
			class.Levels[0].Ways = nowhere
		}
	}
	return &out
}

// machinesAsked returns the number of machines that each class's preference needs: one for every pod that it keeps away or, for a spread,
// one for every MaxSkew pods.
func (p *Problem) machinesAsked() []int {
	marks, groups := make([]int, p.Layout.HostMarks), make([]int, len(p.Layout.Groups))
	for c := range p.Classes {
		rules := p.Classes[c].Levels[0].Rules
		if rules == nil {
			continue
		}
		for m := rules.HostOwns.Next(0); m >= 0; m = rules.HostOwns.Next(m + 1) {
			marks[m] += p.Classes[c].Count
		}
		for _, g := range rules.Groups {
			groups[g] += p.Classes[c].Count
		}
	}
	out := make([]int, len(p.Classes))
	for c := range p.Classes {
		rules := p.Classes[c].Levels[0].Rules
		if rules == nil {
			continue
		}
		for m := rules.HostRejects.Next(0); m >= 0; m = rules.HostRejects.Next(m + 1) {
			out[c] = max(out[c], marks[m])
		}
		for _, s := range rules.Spread {
			if p.Layout.Groups[s.Group].Key < 0 {
				out[c] = max(out[c], (groups[s.Group]+s.MaxSkew-1)/s.MaxSkew)
			}
		}
	}
	return out
}

// total returns the price of the round's machines and the Miss of its pods, at these prices of resources. A pod has the Miss of the first of its
// levels that its place meets.
func (s *solver) total(p *Problem, worths []float64) float64 {
	whole := *s
	whole.p = p
	r := newReplay(&whole)
	for c := range r.level {
		for i := range r.level[c] {
			r.level[c][i] = 0
		}
	}
	r.placeAll()
	sum := s.price()
	for i, pod := range r.placement.order {
		class := &p.Classes[pod.Class]
		if miss := class.Levels[r.placement.levels[i]].Miss; miss > 0 && len(worths) > 0 {
			sum += float64(miss * bound.WorthOf(class.Request, worths))
		}
	}
	return sum
}
