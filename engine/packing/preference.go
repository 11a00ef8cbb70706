package packing

import (
	"slices"

	"tenon.sh/engine/bound"
)

// Whether what pods would like of single machines is worth its price shows only when the machines are bought: being alone is
// free for a few pods among many others, and dear for many of a kind. So the problem is solved without such preferences for new
// machines, then with all of them, and if that does not pay with those for which there may be machines enough in any case. What
// costs least in all counts: machines, and what is missed.
func (p *Problem) solvePreferences() *solver {
	none := p.granting(func(int) bool { return false })
	best := none.solve()
	worth, bound := best.worth, best.bound
	if len(best.machines) == 0 {
		return best // nothing has to be bought, and nothing is for a preference alone
	}
	least := best.total(p, worth)
	machines := p.machinesAsked()
	enough := len(p.Nodes) + len(best.machines)
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
	best.bound, best.worth = min(best.bound, bound), worth // no preference has to be granted
	return best
}

// noise is the share of a price below which a difference comes of the arithmetic alone.
const noise = 1e-9

// prefers reports whether the class's first level asks something of single machines that it need not have.
func (c *Class) prefers() bool { return len(c.Levels) > 1 && c.Levels[0].Lone }

// hasPreferences reports whether some class prefers something that has a price.
func (p *Problem) hasPreferences() bool {
	return p.Weighted && slices.ContainsFunc(p.Classes, func(c Class) bool { return c.prefers() })
}

// granting is the problem with the preferences of some classes only, as far as new machines are concerned.
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

// machinesAsked says how many machines each class's preference takes: one for every pod that it keeps away, or one for so many of those
// that are spread.
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

// total is what the round's machines cost, and what its pods miss, at these prices of resources: each counts at the first of
// its levels that is met where it is.
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
	for i, pod := range r.order {
		class := &p.Classes[pod.Class]
		if miss := class.Levels[r.levels[i]].Miss; miss > 0 && len(worths) > 0 {
			sum += float64(miss * bound.WorthOf(class.Request, worths))
		}
	}
	return sum
}
