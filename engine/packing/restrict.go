package packing

import "tenon.sh/engine/topology"

// restricts reports whether the next pod of the class decides in which domain all its companions have to run, and the place's domain has
// less room for them than a domain for new machines.
func (s *solver) restricts(c, l int, place topology.Place) bool {
	ls := &s.classes[c].levels[l]
	keys := s.startKeys(ls)
	if len(keys) == 0 {
		return false
	}
	here := s.roomNear(c, l, keys, place)
	if here == s.p.Classes[c].Count-s.classes[c].next {
		return false
	}
	for _, choice := range s.choicesOf(c, l) {
		there := ls.view.domains[choice.domain]
		if s.bounded(c, l, choice.domain) == 0 {
			continue
		}
		if _, ok := s.world.Allows(ls.rules, there); ok && s.roomNear(c, l, keys, there) > here {
			return true
		}
	}
	return false
}

// startKeys returns the keys, except the host key, of the sets that the next pod starts.
func (s *solver) startKeys(ls *levelState) []int {
	var keys []int
	for i := range ls.rules.Affinity {
		if a := &ls.rules.Affinity[i]; s.world.Starts(a) {
			for _, key := range s.p.Layout.Sets[a.Set].Keys {
				if key != topology.Host {
					keys = append(keys, key)
				}
			}
		}
	}
	return keys
}

// roomNear returns how many more pods of the class have room in the domains of the place: on nodes, and on new machines as far as known.
func (s *solver) roomNear(c, l int, keys []int, place topology.Place) int {
	class := &s.p.Classes[c]
	ls := &s.classes[c].levels[l]
	left := class.Count - s.classes[c].next
	near := func(other topology.Place) bool {
		for _, key := range keys {
			if place[key] < 0 || other[key] != place[key] {
				return false
			}
		}
		return true
	}
	room := 0
	s.look(len(s.choicesOf(c, l)) + len(s.roomyNodes()))
	for _, choice := range s.choicesOf(c, l) {
		if near(ls.view.domains[choice.domain]) {
			room += s.bounded(c, l, choice.domain)
		}
	}
	for _, n := range s.roomyNodes() {
		if room >= left {
			return left
		}
		if class.Levels[l].Nodes.Has(n) && near(s.p.Places[s.nodes[n].place]) && !s.clashes(ls.host, n) {
			room += class.Request.Times(s.nodes[n].room, left)
		}
	}
	return min(room, left)
}

// bounded returns how many more pods of the class may get new machines in the domain, as far as known.
func (s *solver) bounded(c, l, domain int) int {
	left := s.p.Classes[c].Count - s.classes[c].next
	key := domainKey{c, l, domain}
	if most, capped := s.lessons.caps[key]; capped {
		return max(0, min(left, most-s.inItem(key)))
	}
	return left
}
