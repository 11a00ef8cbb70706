package packing

import (
	"slices"

	"tenon.sh/engine/capacity"
	"tenon.sh/engine/topology"
)

// mostLate bounds the machines that are bought for pods without a place at the end of a round.
const mostLate = 16

// buyLate buys a machine for a pod that found no place in the round, and reports whether it did. It buys one only if it breaks no rule of the other
// pods: the machine brings no empty domain beside domains with several pods, and no pod is on its node only because no machine was empty. Later pods
// may use the machine too.
func (r *replay) buyLate(pod Pod, l int) bool {
	c := pod.Class
	ls := &r.classes[c].levels[l]
	if r.p.Weighted && l < len(r.p.Classes[c].Levels)-1 {
		return false // a preference alone is not worth a machine
	}
	if r.bought == mostLate || r.relied {
		return false
	}
	var domains []*Ways
	for _, choice := range r.choicesOf(c, l) {
		if len(r.affinityIn(ls, ls.view.domains[choice.domain])) > 0 {
			continue
		}
		if _, ok := r.world.Allows(ls.rules, ls.view.domains[choice.domain]); ok {
			domains = append(domains, r.waysIn(c, l, choice.domain))
		}
	}
	for _, pools := range r.round.tiers() {
		if m, ok := r.lateMachine(c, domains, pools); ok {
			r.bought++
			r.round.listing.machines = append(r.round.listing.machines, m)
			r.addMachine(&m)
			r.putLate(pod, l, len(r.nodes.list)-1)
			return true
		}
	}
	return false
}

// lateMachine returns the cheapest machine of the pools for one pod of the class in one of the domains.
func (r *replay) lateMachine(c int, domains []*Ways, pools []int) (m Machine, ok bool) {
	var best *openBin
	for _, ways := range domains {
		for _, p := range pools {
			if b := r.lateDraft(c, ways, p); b != nil && (best == nil || b.price < best.price) {
				best = b
			}
		}
	}
	if best == nil || !r.round.market.spend(best) {
		return m, false
	}
	m = r.round.listing.machine(best)
	if best.variety == nil {
		m.Listed = slices.DeleteFunc(slices.Clone(m.Listed), func(o int) bool {
			return o != m.Chosen && (r.round.market.pools[m.Pool].limited || len(r.p.Quotas) > 0 || r.opens(m.Pool, o))
		})
	} else if len(r.p.Quotas) > 0 {
		m.Listed = r.round.market.varietyBox(best, 0)
		m.Chosen = m.Listed[0]
	}
	if r.round.market.overdrawn(m.Pool, append(slices.Clip(r.round.listing.machines), m)) || slices.ContainsFunc(m.Listed, func(o int) bool { return r.opens(m.Pool, o) }) {
		r.round.market.charge(best, -1)
		return m, false
	}
	return m, true
}

// lateDraft returns the cheapest machine of the pool for one pod of the class with these ways. It returns nil if none may be bought.
func (r *replay) lateDraft(c int, ways *Ways, p int) *openBin {
	s := r.round
	request := r.p.Classes[c].Request
	pools := make([]int, len(s.market.pools))
	for i := range pools {
		pools[i] = i
	}
	large, devices := s.market.special(pools, &demand{class: c, ways: ways, request: request})
	empty := &openBin{pool: p, sum: make(capacity.Vector, len(request)), free: s.market.pools[p].Free}
	b := s.search.joined(empty, ways, s.placement.reader.hostRulesOf(nil, r.p.Classes[c].Shared), request, large, devices)
	if b == nil || r.opens(p, b.option) {
		return nil
	}
	return b
}

// opens reports whether a machine of the option brings residents that affect the rules of pods with a place, or an empty domain while another domain
// of the same group has more than one pod.
func (r *replay) opens(p, o int) bool {
	place := r.p.Places[r.market.pools[p].Options[o].Place]
	if r.disturbs(place) {
		return true
	}
	for g := range r.p.Layout.Groups {
		key := r.p.Layout.Groups[g].Key
		if key == topology.Host || place[key] < 0 || !r.round.placement.host.owned[g] || !r.world.Counts(g, place) {
			continue
		}
		if counts := r.world.Count(g); counts[place[key]] < 0 && slices.Max(counts) > 1 {
			return true
		}
	}
	return false
}
