package packing

import (
	"slices"

	"tenon.sh/engine/topology"
)

// placeAssigned puts pods on the nodes that they are expected on. Only then it puts pods on their proposed nodes, into the room that is
// left.
func (s *solver) placeAssigned() {
	s.placeAllAssigned(false)
	s.placeAllAssigned(true)
	s.noteClosed()
	arrived := make([]bool, len(s.nodes))
	for c := range s.p.Classes {
		if n := s.p.Classes[c].Assigned; n > 0 && s.classes[c].next > 0 {
			arrived[n-1] = true
		}
	}
	for n := range arrived {
		if !arrived[n] && len(s.p.Nodes[n].Ending) > 0 && !s.lessons.awaited.Has(n) {
			s.stay = append(s.stay, n)
		}
	}
	s.countEnding(s.stay)
}

// placeAllAssigned puts pods on their nodes. A pod may have to wait for another pod, so it tries the rest again as long as any pod is
// placed.
func (s *solver) placeAllAssigned(proposed bool) {
	for moved := true; moved; {
		moved = false
		for c := range s.p.Classes {
			if s.p.Classes[c].Assigned == 0 || s.p.Classes[c].Proposed != proposed {
				continue
			}
			for state := &s.classes[c]; state.next < s.p.Classes[c].Count && s.placeOnAssigned(c); {
				moved = true
			}
		}
	}
}

// countEnding counts the victims of preemption on these nodes, where they do not end after all.
func (s *solver) countEnding(nodes []int) {
	for _, n := range nodes {
		node := &s.nodes[n]
		for _, t := range s.p.Nodes[n].Ending {
			s.world.Put(&topology.Rules{Sets: []int{t.Of}}, s.p.Places[node.place], t.Count)
			if h := s.host.sets[t.Of]; h >= 0 {
				node.sets[h] += t.Count
			}
		}
	}
}

// cameLate notes the nodes in stay that got their assigned pods after all, although the round had assumed that these pods do not come. It reports
// whether there are any.
func (s *solver) cameLate() bool {
	found := false
	for _, n := range s.stay {
		if slices.ContainsFunc(s.placed[n], func(share Share) bool { return s.p.Classes[share.Class].Assigned == n+1 }) {
			s.lessons.awaited.Add(n)
			found = true
		}
	}
	return found
}

// placeOnAssigned puts the next pod of the class on its assigned node, at the first level that allows it.
func (s *solver) placeOnAssigned(c int) bool {
	class := &s.p.Classes[c]
	n := class.Assigned - 1
	for l := range class.Levels {
		s.prepare(c, l)
		ls := &s.classes[c].levels[l]
		if s.clashes(ls.host, n) || !s.hostAllows(ls, n) || class.Proposed && !s.proposable(c, l, n) {
			continue
		}
		if _, ok := s.world.Allows(ls.rules, s.p.Places[s.nodes[n].place]); ok {
			s.onNode(c, l, n, 1)
			return true
		}
	}
	return false
}

// proposable reports whether a node that is only proposed admits the pod and has room for it.
func (s *solver) proposable(c, l, n int) bool {
	return s.p.Classes[c].Levels[l].Nodes.Has(n) && s.needs(c, n).Fits(s.nodes[n].room)
}

// noteClosed stores the counts of domains, also of domains without machines, when pods have been put on their assigned nodes. If machines
// are bought in a domain without machines after all, some of these pods may break the spread, because that domain is emptier.
func (s *solver) noteClosed() {
	s.closed = make([][]int, len(s.p.Layout.Groups))
	for c := range s.p.Classes {
		if s.p.Classes[c].Assigned == 0 || s.classes[c].next == 0 {
			continue
		}
		for l := range s.p.Classes[c].Levels {
			for _, sp := range s.classes[c].levels[l].spreads() {
				if s.p.Layout.Groups[sp.Group].Key != topology.Host && s.closed[sp.Group] == nil {
					s.closed[sp.Group] = s.world.Count(sp.Group)
				}
			}
		}
	}
}

func (ls *levelState) spreads() []topology.Spread {
	if !ls.ready {
		return nil
	}
	return ls.rules.Spread
}

// wasClosed reports whether the domain had no machines when pods were put on their assigned nodes.
func (s *solver) wasClosed(group, domain int) bool {
	return s.closed[group] != nil && s.closed[group][domain] < 0
}
