package packing

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine/topology"
)

// candidates returns the nodes that admit the class at the level and had room when they were first tried, the fullest first.
func (s *solver) candidates(c, l int) []int {
	ls := &s.classes[c].levels[l]
	if ls.nodesRead {
		return ls.nodes
	}
	ls.nodesRead = true
	class := &s.p.Classes[c]
	admitted := class.Levels[l].Nodes
	for _, n := range s.roomyNodes() {
		if admitted.Has(n) && s.needs(c, n).Fits(s.nodes[n].room) && !s.clashes(ls.host, n) {
			ls.nodes = append(ls.nodes, n)
		}
	}
	return ls.nodes
}

// roomyNodes returns the nodes with room for the smallest request of any class in every resource, the fullest first.
func (s *solver) roomyNodes() []int {
	if s.roomyRead {
		return s.roomy
	}
	s.roomyRead = true
	if len(s.nodes) == 0 || len(s.p.Classes) == 0 {
		return nil
	}
	least := s.p.Classes[0].Request.Clone()
	for i := range s.p.Classes {
		least.Min(s.p.Classes[i].Request)
	}
	for i := range s.p.Classes {
		for _, shared := range s.p.Classes[i].Shared {
			least[shared.Resource] = 0 // if a pod there has the thing already, it takes nothing
		}
	}
	scale := s.scale()
	room := make([]float64, len(s.nodes))
	for n := range s.nodes {
		if least.Fits(s.nodes[n].room) {
			room[n] = measure(s.nodes[n].room, scale)
			s.roomy = append(s.roomy, n)
		}
	}
	slices.SortFunc(s.roomy, func(a, b int) int { return cmp.Or(cmp.Compare(room[a], room[b]), cmp.Compare(a, b)) })
	return s.roomy
}

func (s *solver) clashes(r *hostRules, n int) bool {
	return meets(r.rejects, s.nodes[n].bears) || meets(r.owns, s.nodes[n].shuns)
}

// findNode looks for an existing node for one more pod of the class. It drops nodes that can never take another pod of the class.
func (s *solver) findNode(c, l int) placement {
	none := placement{level: l, node: -1}
	ls := &s.classes[c].levels[l]
	list := s.candidates(c, l)
	if len(list) == 0 {
		return none
	}
	class := &s.p.Classes[c]
	whole := s.startsByHost(ls)
	allowed := make([]int8, len(ls.view.domains)) // 0 unknown, 1 yes, -1 no
	kept := list[:0]
	found := -1
	for i, n := range list {
		node := &s.nodes[n]
		if !s.needs(c, n).Fits(node.room) || s.clashes(ls.host, n) {
			continue
		}
		kept = append(kept, n)
		if whole && class.Request.Times(node.room, class.Count) < class.Count-s.classes[c].next && s.buyableFrom(c, l) {
			continue
		}
		domain := ls.view.domainAt[node.place]
		if allowed[domain] == 0 {
			allowed[domain] = -1
			s.look(8 + ls.rules.Len())
			if _, ok := s.world.Allows(ls.rules, s.p.Places[node.place]); ok && !slices.Contains(ls.view.domains[domain], topology.Open) &&
				!s.restricts(c, l, s.p.Places[node.place]) {
				allowed[domain] = 1
			}
		}
		if allowed[domain] > 0 && s.hostAllows(ls, n) {
			found = n
			kept = append(kept, list[i+1:]...)
			break
		}
	}
	ls.nodes = kept
	if found < 0 {
		return none
	}
	return placement{level: l, node: found, cost: -1}
}

// startsByHost reports whether the next pod decides on which machine all its companions have to run.
func (s *solver) startsByHost(ls *levelState) bool {
	for i := range ls.rules.Affinity {
		if a := &ls.rules.Affinity[i]; s.host.sets[a.Set] >= 0 && s.world.Starts(a) {
			return true
		}
	}
	return false
}

// affinityOf returns the sets of which the next pod needs a pod on its own machine.
func (s *solver) affinityOf(ls *levelState) []int {
	var sets []int
	for i := range ls.rules.Affinity {
		if a := &ls.rules.Affinity[i]; s.host.sets[a.Set] >= 0 && !s.world.Starts(a) {
			sets = append(sets, a.Set)
		}
	}
	return sets
}

// hostAllows checks the rules that count pods on the node itself.
func (s *solver) hostAllows(ls *levelState, n int) bool {
	node := &s.nodes[n]
	for _, sp := range ls.rules.Spread {
		h := s.host.groups[sp.Group]
		if h < 0 {
			continue
		}
		count := 0
		if s.world.Counts(sp.Group, s.p.Places[node.place]) {
			count = node.groups[h]
		}
		if sp.Self {
			count++
		}
		floor := s.floor(sp.Group, sp.MinDomains)
		if count-floor > sp.MaxSkew {
			return false
		}
		s.relied = s.relied || count > sp.MaxSkew
	}
	for _, set := range s.affinityOf(ls) {
		if node.sets[s.host.sets[set]] == 0 {
			return false
		}
	}
	return true
}

// floor returns the smallest count of a host group on the existing nodes that it counts, or on new machines if some of them will be empty.
// It is 0 if the group counts fewer than minDomains nodes, or if Zero is set for the group.
func (s *solver) floor(group, minDomains int) int {
	if s.p.Layout.Groups[group].Zero {
		return 0
	}
	fresh := math.MaxInt
	if !s.complete && s.lessons.zero.Has(group) {
		if fresh = s.lessons.frame.fresh[group]; fresh == 0 {
			return 0
		}
	}
	least, domains := s.least(group)
	if domains < max(1, minDomains) {
		return 0
	}
	return min(least, fresh)
}

// least returns the smallest count of a host group on the nodes that it counts, and the number of these nodes.
func (s *solver) least(group int) (least, domains int) {
	h := s.host.groups[group]
	least = math.MaxInt
	for i := range s.nodes {
		if node := &s.nodes[i]; s.counts(group, i) {
			count := node.groups[h]
			if node.doubtful != nil {
				count -= node.doubtful[h]
			}
			least = min(least, count)
			domains++
		}
	}
	return least, domains
}

// counts reports whether the group counts the node, or may count the new machine.
func (s *solver) counts(group, n int) bool {
	node := &s.nodes[n]
	return s.world.Counts(group, s.p.Places[node.place]) ||
		slices.ContainsFunc(node.others, func(place int) bool { return s.world.Counts(group, s.p.Places[place]) })
}

// onNode places the next n pods of the class on a node.
func (s *solver) onNode(c, l, n, count int) {
	state := &s.classes[c]
	if k := len(s.placed[n]); k == 0 || s.placed[n][k-1].Class != c {
		s.placed[n] = append(s.placed[n], Share{Class: c})
	}
	share := &s.placed[n][len(s.placed[n])-1]
	for range count {
		share.Pods = append(share.Pods, state.next)
		s.order, s.levels = append(s.order, Pod{c, state.next}), append(s.levels, l)
		state.next++
	}
	s.occupy(c, l, n, count)
}

// occupy adds pods of the class to the counts of the node and its domains, and takes their room.
func (s *solver) occupy(c, l, n, count int) {
	ls := &s.classes[c].levels[l]
	node := &s.nodes[n]
	if ls.free {
		node.room.Add(s.p.Classes[c].Request, -int64(count))
		return
	}
	for range count {
		node.room.Add(s.needs(c, n), -1)
		s.bring(c, n)
	}
	place := s.p.Places[node.place]
	s.world.Put(ls.rules, place, count)
	node.bears, node.shuns = union(node.bears, ls.host.owns), union(node.shuns, s.rejected(c, ls))
	for _, g := range ls.rules.Groups {
		if h := s.host.groups[g]; h >= 0 && s.world.Counts(g, place) {
			node.groups[h] += count
		}
	}
	for _, set := range ls.rules.Sets {
		if h := s.host.sets[set]; h >= 0 {
			node.sets[h] += count
		}
	}
}
