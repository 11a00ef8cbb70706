package packing

import (
	"cmp"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/topology"
)

// domainChoice is a domain in which a new machine can hold a pod of the class.
type domainChoice struct {
	domain int
	tier   int        // rank of the heaviest pool there
	dear   float64    // how much more the request costs here than in the cheapest domain, as a share of the price there
	beside *hostRules // the rules that remain beside the residents of machines there; nil if these change nothing
	wanted bool       // the dependants can have machines there
}

// hostIn returns the level's rules for single machines, as they are in the domain.
func (ls *levelState) hostIn(choice domainChoice) *hostRules { return cmp.Or(choice.beside, ls.host) }

// isShut reports whether the place's domain could have been opened in an earlier round, but was not.
func (s *solver) isShut(group int, place topology.Place) bool {
	key := s.p.Layout.Groups[group].Key
	return len(s.lessons.shut) > 0 && key != topology.Host && s.lessons.shut[[2]int{group, int(place[key])}]
}

// affordable reports whether the pool's limits and the quotas leave room for one machine of the option.
func (s *solver) affordable(p, o int) bool {
	pool := &s.pools[p]
	return (!pool.limited || within(pool.Options[o].Charge, pool.left)) && (len(s.quotas) == 0 || s.quotasHold(pool.Options[o].Draws))
}

// buyableFrom reports whether, at the level or a later one, some new machine holds all pods that are left of the class.
func (s *solver) buyableFrom(c, l int) bool {
	for ; l < len(s.p.Classes[c].Levels); l++ {
		if s.prepare(c, l); s.buyable(c, l) {
			return true
		}
	}
	return false
}

// buyable reports whether some new machine holds all pods that are left of the class.
func (s *solver) buyable(c, l int) bool {
	all := s.together(c, s.p.Classes[c].Count-s.classes[c].next)
	ways := s.p.Classes[c].Levels[l].Ways
	for _, choice := range s.choicesOf(c, l) {
		options := s.classes[c].levels[l].view.options[choice.domain]
		s.look(len(options))
		if s.lessons.frame.sells(ways, options, all).ok {
			return true
		}
	}
	return false
}

// findDomain looks for a domain in which to buy a machine for one more pod of the class. Of the domains that its rules allow, it prefers
// one where its dependants can have machines, then the most even spread, then the heaviest pool, then the least price.
func (s *solver) findDomain(c, l int) placement {
	out := placement{level: l, node: -1}
	ls := &s.classes[c].levels[l]
	company := s.affinityOf(ls)
	if l+1 < len(s.p.Classes[c].Levels) && s.startsByHost(ls) && !s.buyable(c, l) && s.buyableFrom(c, l+1) {
		return out // this level has no room for its companions
	}
	choices := s.choicesOf(c, l)
	s.look(len(choices) * (4 + ls.rules.Len()))
	least := 0
	for i := range choices {
		choice := &choices[i]
		key := domainKey{c, l, choice.domain}
		if most, capped := s.lessons.caps[key]; capped && s.inItem(key) >= most {
			continue
		}
		if most, steered := s.lessons.quota[key]; steered && s.inItem(key) >= most {
			continue
		}
		if s.isLonely(company, ls.view.domains[choice.domain]) {
			continue
		}
		uneven, ok := s.world.Allows(ls.rules, ls.view.domains[choice.domain])
		if !ok {
			continue
		}
		if out.choice == nil || before(choice, uneven, out.choice, least) {
			out.choice, least = choice, uneven
			out.cost = choice.dear
		}
	}
	return out
}

func before(a *domainChoice, unevenA int, b *domainChoice, unevenB int) bool {
	if a.wanted != b.wanted {
		return a.wanted
	}
	return cmp.Or(cmp.Compare(unevenA, unevenB), cmp.Compare(a.tier, b.tier), cmp.Compare(a.dear, b.dear)) < 0
}

// rejected returns the marks that a pod of the class keeps off its node: in a replay, only the marks of its last level.
func (s *solver) rejected(c int, ls *levelState) bitset.Set {
	if !s.complete {
		return ls.host.rejects
	}
	last := len(s.p.Classes[c].Levels) - 1
	s.prepare(c, last)
	return s.classes[c].levels[last].host.rejects
}

// onNew plans new machines in a domain for the next pods of the class.
func (s *solver) onNew(c, l int, choice domainChoice, count int) {
	state := &s.classes[c]
	ls := &state.levels[l]
	key := domainKey{c, l, choice.domain}
	company := s.affinityIn(ls, ls.view.domains[choice.domain])
	d := s.byKey[key]
	if d == nil || !slices.Equal(d.company, company) {
		d = &demand{
			class: c, level: l, domain: choice.domain, single: len(ls.view.domains) == 1, ways: s.waysIn(c, l, choice.domain),
			place: ls.view.domains[choice.domain], rules: ls.rules, host: ls.hostIn(choice), request: s.p.Classes[c].Request, own: s.own[c], company: company,
		}
		s.byKey[key] = d
		s.demands = append(s.demands, d)
	}
	for i := range count {
		d.queue = append(d.queue, state.next+i)
		s.order, s.levels = append(s.order, Pod{c, state.next + i}), append(s.levels, l)
	}
	d.left += count
	state.next += count
	if ls.free {
		return
	}
	if s.p.Layout.Settles(d.place) {
		s.world.Arrive([]topology.Place{d.place}, true)
	}
	s.world.Put(ls.rules, d.place, count)
	for _, set := range ls.rules.Sets {
		s.setLeft[set] += count
	}
}
