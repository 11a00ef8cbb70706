package packing

import "tenon.sh/engine/topology"

// restricts reports whether the next pod of the class decides in which domain all its companions have to run, and the place's domain has
// less room for them than a domain for new machines.
func (pl *placement) restricts(c, l int, place topology.Place) bool {
	ls := &pl.classes[c].levels[l]
	keys := pl.startKeys(ls)
	if len(keys) == 0 {
		return false
	}
	here := pl.roomNear(c, l, keys, place)
	if here == pl.p.Classes[c].Count-pl.classes[c].next {
		return false
	}
	for _, choice := range pl.choicesOf(c, l) {
		there := ls.view.domains[choice.domain]
		if pl.bounded(c, l, choice.domain) == 0 {
			continue
		}
		if _, ok := pl.world.Allows(ls.rules, there); ok && pl.roomNear(c, l, keys, there) > here {
			return true
		}
	}
	return false
}

// startKeys returns the keys, except the host key, of the sets that the next pod starts.
func (pl *placement) startKeys(ls *levelState) []int {
	var keys []int
	for i := range ls.rules.Affinity {
		if a := &ls.rules.Affinity[i]; pl.world.Starts(a) {
			for _, key := range pl.p.Layout.Sets[a.Set].Keys {
				if key != topology.Host {
					keys = append(keys, key)
				}
			}
		}
	}
	return keys
}

// roomNear returns how many more pods of the class have room in the domains of the place: on nodes, and on new machines as far as known.
func (pl *placement) roomNear(c, l int, keys []int, place topology.Place) int {
	class := &pl.p.Classes[c]
	ls := &pl.classes[c].levels[l]
	left := class.Count - pl.classes[c].next
	near := func(other topology.Place) bool {
		for _, key := range keys {
			if place[key] < 0 || other[key] != place[key] {
				return false
			}
		}
		return true
	}
	room := 0
	pl.market.look(len(pl.choicesOf(c, l)) + len(pl.nodes.roomyNodes()))
	for _, choice := range pl.choicesOf(c, l) {
		if near(ls.view.domains[choice.domain]) {
			room += pl.bounded(c, l, choice.domain)
		}
	}
	for _, n := range pl.nodes.roomyNodes() {
		if room >= left {
			return left
		}
		if class.Levels[l].Nodes.Has(n) && near(pl.p.Places[pl.nodes.list[n].place]) && !pl.nodes.clashes(ls.host, n) {
			room += class.Request.Times(pl.nodes.list[n].room, left)
		}
	}
	return min(room, left)
}

// bounded returns how many more pods of the class may get new machines in the domain, as far as known.
func (pl *placement) bounded(c, l, domain int) int {
	left := pl.p.Classes[c].Count - pl.classes[c].next
	key := domainKey{c, l, domain}
	if most, capped := pl.lessons.caps[key]; capped {
		return max(0, min(left, most-pl.inItem(key)))
	}
	return left
}
