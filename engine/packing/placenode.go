package packing

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine/topology"
)

// candidates returns the nodes that admit the class at the level and had room when they were first tried, the fullest first.
func (pl *placement) candidates(c, l int) []int {
	ls := &pl.classes[c].levels[l]
	if ls.nodesRead {
		return ls.nodes
	}
	ls.nodesRead = true
	class := &pl.p.Classes[c]
	admitted := class.Levels[l].Nodes
	for _, n := range pl.nodes.roomyNodes() {
		if admitted.Has(n) && pl.nodes.needs(c, n).Fits(pl.nodes.list[n].room) && !pl.nodes.clashes(ls.host, n) {
			ls.nodes = append(ls.nodes, n)
		}
	}
	return ls.nodes
}

// roomyNodes returns the nodes with room for the smallest request of any class in every resource, the fullest first.
func (ns *nodeStates) roomyNodes() []int {
	if ns.roomyRead {
		return ns.roomy
	}
	ns.roomyRead = true
	if len(ns.list) == 0 || len(ns.p.Classes) == 0 {
		return nil
	}
	least := ns.p.Classes[0].Request.Clone()
	for i := range ns.p.Classes {
		least.Min(ns.p.Classes[i].Request)
	}
	for i := range ns.p.Classes {
		for _, shared := range ns.p.Classes[i].Shared {
			least[shared.Resource] = 0 // if a pod there has the thing already, it takes nothing
		}
	}
	scale := ns.p.scale()
	room := make([]float64, len(ns.list))
	for n := range ns.list {
		if least.Fits(ns.list[n].room) {
			room[n] = measure(ns.list[n].room, scale)
			ns.roomy = append(ns.roomy, n)
		}
	}
	slices.SortFunc(ns.roomy, func(a, b int) int { return cmp.Or(cmp.Compare(room[a], room[b]), cmp.Compare(a, b)) })
	return ns.roomy
}

func (ns *nodeStates) clashes(r *hostRules, n int) bool {
	return meets(r.rejects, ns.list[n].bears) || meets(r.owns, ns.list[n].shuns)
}

// findNode looks for an existing node for one more pod of the class. It drops nodes that can never take another pod of the class.
func (pl *placement) findNode(c, l int) candidate {
	none := candidate{level: l, node: -1}
	ls := &pl.classes[c].levels[l]
	list := pl.candidates(c, l)
	if len(list) == 0 {
		return none
	}
	class := &pl.p.Classes[c]
	whole := pl.startsByHost(ls)
	allowed := make([]int8, len(ls.view.domains)) // 0 unknown, 1 yes, -1 no
	kept := list[:0]
	found := -1
	for i, n := range list {
		node := &pl.nodes.list[n]
		if !pl.nodes.needs(c, n).Fits(node.room) || pl.nodes.clashes(ls.host, n) {
			continue
		}
		kept = append(kept, n)
		if whole && class.Request.Times(node.room, class.Count) < class.Count-pl.classes[c].next && pl.buyableFrom(c, l) {
			continue
		}
		domain := ls.view.domainAt[node.place]
		if allowed[domain] == 0 {
			allowed[domain] = -1
			pl.market.look(8 + ls.rules.Len())
			if _, ok := pl.world.Allows(ls.rules, pl.p.Places[node.place]); ok && !slices.Contains(ls.view.domains[domain], topology.Open) &&
				!pl.restricts(c, l, pl.p.Places[node.place]) {
				allowed[domain] = 1
			}
		}
		if allowed[domain] > 0 && pl.hostAllows(ls, n) {
			found = n
			kept = append(kept, list[i+1:]...)
			break
		}
	}
	ls.nodes = kept
	if found < 0 {
		return none
	}
	return candidate{level: l, node: found, cost: -1}
}

// startsByHost reports whether the next pod decides on which machine all its companions have to run.
func (pl *placement) startsByHost(ls *levelState) bool {
	for i := range ls.rules.Affinity {
		if a := &ls.rules.Affinity[i]; pl.host.sets[a.Set] >= 0 && pl.world.Starts(a) {
			return true
		}
	}
	return false
}

// affinityOf returns the sets of which the next pod needs a pod on its own machine.
func (pl *placement) affinityOf(ls *levelState) []int {
	var sets []int
	for i := range ls.rules.Affinity {
		if a := &ls.rules.Affinity[i]; pl.host.sets[a.Set] >= 0 && !pl.world.Starts(a) {
			sets = append(sets, a.Set)
		}
	}
	return sets
}

// hostAllows reports whether the rules that count pods on the node itself are met.
func (pl *placement) hostAllows(ls *levelState, n int) bool {
	node := &pl.nodes.list[n]
	for _, sp := range ls.rules.Spread {
		h := pl.host.groups[sp.Group]
		if h < 0 {
			continue
		}
		count := 0
		if pl.world.Counts(sp.Group, pl.p.Places[node.place]) {
			count = node.groups[h]
		}
		if sp.Self {
			count++
		}
		floor := pl.floor(sp.Group, sp.MinDomains)
		if count-floor > sp.MaxSkew {
			return false
		}
		pl.relied = pl.relied || count > sp.MaxSkew
	}
	for _, set := range pl.affinityOf(ls) {
		if node.sets[pl.host.sets[set]] == 0 {
			return false
		}
	}
	return true
}

// floor returns the smallest count of a host group on the existing nodes that it counts, or on new machines if some of them will be empty.
// It is 0 if the group counts fewer than minDomains nodes, or if Zero is set for the group.
func (pl *placement) floor(group, minDomains int) int {
	if pl.p.Layout.Groups[group].Zero {
		return 0
	}
	fresh := math.MaxInt
	if !pl.complete && pl.lessons.zero.Has(group) {
		if fresh = pl.lessons.frame.fresh[group]; fresh == 0 {
			return 0
		}
	}
	least, domains := pl.nodes.least(group)
	if domains < max(1, minDomains) {
		return 0
	}
	return min(least, fresh)
}

// least returns the smallest count of a host group on the nodes that it counts, and the number of these nodes.
func (ns *nodeStates) least(group int) (least, domains int) {
	h := ns.host.groups[group]
	least = math.MaxInt
	for i := range ns.list {
		if node := &ns.list[i]; ns.counts(group, i) {
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
func (ns *nodeStates) counts(group, n int) bool {
	node := &ns.list[n]
	return ns.world.Counts(group, ns.p.Places[node.place]) ||
		slices.ContainsFunc(node.others, func(place int) bool { return ns.world.Counts(group, ns.p.Places[place]) })
}

// onNode places the next `count` pods of the class on node n.
func (pl *placement) onNode(c, l, n, count int) {
	state := &pl.classes[c]
	if k := len(pl.placed[n]); k == 0 || pl.placed[n][k-1].Class != c {
		pl.placed[n] = append(pl.placed[n], Share{Class: c})
	}
	share := &pl.placed[n][len(pl.placed[n])-1]
	for range count {
		share.Pods = append(share.Pods, state.next)
		pl.order, pl.levels = append(pl.order, Pod{c, state.next}), append(pl.levels, l)
		state.next++
	}
	pl.occupy(c, l, n, count)
}

// occupy adds pods of the class to the counts of the node and its domains, and takes their room.
func (pl *placement) occupy(c, l, n, count int) {
	ls := &pl.classes[c].levels[l]
	node := &pl.nodes.list[n]
	if ls.free {
		node.room.Add(pl.p.Classes[c].Request, -int64(count))
		return
	}
	for range count {
		node.room.Add(pl.nodes.needs(c, n), -1)
		pl.nodes.bring(c, n)
	}
	place := pl.p.Places[node.place]
	pl.world.Put(ls.rules, place, count)
	node.bears, node.shuns = union(node.bears, ls.host.owns), union(node.shuns, pl.rejected(c, ls))
	for _, g := range ls.rules.Groups {
		if h := pl.host.groups[g]; h >= 0 && pl.world.Counts(g, place) {
			node.groups[h] += count
		}
	}
	for _, set := range ls.rules.Sets {
		if h := pl.host.sets[set]; h >= 0 {
			node.sets[h] += count
		}
	}
}
