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
func (l *learnedLimits) isShut(layout *topology.Layout, group int, place topology.Place) bool {
	key := layout.Groups[group].Key
	return len(l.shut) > 0 && key != topology.Host && l.shut[[2]int{group, int(place[key])}]
}

// buyableFrom reports whether, at the level or a later one, some new machine holds all pods that are left of the class.
func (pl *placement) buyableFrom(c, l int) bool {
	for ; l < len(pl.p.Classes[c].Levels); l++ {
		if pl.prepare(c, l); pl.buyable(c, l) {
			return true
		}
	}
	return false
}

// buyable reports whether some new machine holds all pods that are left of the class.
func (pl *placement) buyable(c, l int) bool {
	all := pl.reader.together(c, pl.p.Classes[c].Count-pl.classes[c].next)
	ways := pl.p.Classes[c].Levels[l].Ways
	for _, choice := range pl.choicesOf(c, l) {
		options := pl.classes[c].levels[l].view.options[choice.domain]
		pl.market.look(len(options))
		if pl.lessons.frame.sells(ways, options, all).ok {
			return true
		}
	}
	return false
}

// findDomain looks for a domain in which to buy a machine for one more pod of the class. Of the domains that its rules allow, it prefers
// one where its dependants can have machines, then the most even spread, then the heaviest pool, then the least price.
func (pl *placement) findDomain(c, l int) candidate {
	out := candidate{level: l, node: -1}
	ls := &pl.classes[c].levels[l]
	company := pl.affinityOf(ls)
	if l+1 < len(pl.p.Classes[c].Levels) && pl.startsByHost(ls) && !pl.buyable(c, l) && pl.buyableFrom(c, l+1) {
		return out // this level has no room for its companions
	}
	choices := pl.choicesOf(c, l)
	pl.market.look(len(choices) * (4 + ls.rules.Len()))
	least := 0
	for i := range choices {
		choice := &choices[i]
		key := domainKey{c, l, choice.domain}
		if most, capped := pl.lessons.caps[key]; capped && pl.inItem(key) >= most {
			continue
		}
		if most, steered := pl.lessons.quota[key]; steered && pl.inItem(key) >= most {
			continue
		}
		if pl.isLonely(company, ls.view.domains[choice.domain]) {
			continue
		}
		uneven, ok := pl.world.Allows(ls.rules, ls.view.domains[choice.domain])
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
func (pl *placement) rejected(c int, ls *levelState) bitset.Set {
	if !pl.complete {
		return ls.host.rejects
	}
	last := len(pl.p.Classes[c].Levels) - 1
	pl.prepare(c, last)
	return pl.classes[c].levels[last].host.rejects
}

// onNew plans new machines in a domain for the next pods of the class.
func (pl *placement) onNew(c, l int, choice domainChoice, count int) {
	state := &pl.classes[c]
	ls := &state.levels[l]
	key := domainKey{c, l, choice.domain}
	company := pl.affinityIn(ls, ls.view.domains[choice.domain])
	d := pl.byKey[key]
	if d == nil || !slices.Equal(d.company, company) {
		d = &demand{
			class: c, level: l, domain: choice.domain, single: len(ls.view.domains) == 1, ways: pl.waysIn(c, l, choice.domain),
			place: ls.view.domains[choice.domain], rules: ls.rules, host: ls.hostIn(choice), request: pl.p.Classes[c].Request, own: pl.reader.own[c], company: company,
		}
		pl.byKey[key] = d
		pl.demands = append(pl.demands, d)
	}
	for i := range count {
		d.queue = append(d.queue, state.next+i)
		pl.order, pl.levels = append(pl.order, Pod{c, state.next + i}), append(pl.levels, l)
	}
	d.left += count
	state.next += count
	if ls.free {
		return
	}
	if pl.p.Layout.Settles(d.place) {
		pl.world.Arrive([]topology.Place{d.place}, true)
	}
	pl.world.Put(ls.rules, d.place, count)
	for _, set := range ls.rules.Sets {
		pl.setLeft[set] += count
	}
}
