package packing

import (
	"slices"

	"tenon.sh/engine/topology"
)

// placeAssigned puts pods on the nodes that they are expected on. Afterwards it puts pods on their proposed nodes, if the nodes have room left.
func (pl *placement) placeAssigned() {
	pl.placeAllAssigned(false)
	pl.placeAllAssigned(true)
	pl.noteClosed()
	arrived := make([]bool, len(pl.nodes.list))
	for c := range pl.p.Classes {
		if n := pl.p.Classes[c].Assigned; n > 0 && pl.classes[c].next > 0 {
			arrived[n-1] = true
		}
	}
	for n := range arrived {
		if !arrived[n] && len(pl.p.Nodes[n].Ending) > 0 && !pl.lessons.awaited.Has(n) {
			pl.stay = append(pl.stay, n)
		}
	}
	pl.countEnding(pl.stay)
}

// placeAllAssigned puts pods on their nodes. A pod may have to wait for another pod, so it tries the rest again as long as any pod is
// placed.
func (pl *placement) placeAllAssigned(proposed bool) {
	for moved := true; moved; {
		moved = false
		for c := range pl.p.Classes {
			if pl.p.Classes[c].Assigned == 0 || pl.p.Classes[c].Proposed != proposed {
				continue
			}
			for state := &pl.classes[c]; state.next < pl.p.Classes[c].Count && pl.placeOnAssigned(c); {
				moved = true
			}
		}
	}
}

// countEnding adds the victims of preemption on these nodes to the counts of their sets, because these victims are not evicted after all.
func (pl *placement) countEnding(nodes []int) {
	for _, n := range nodes {
		node := &pl.nodes.list[n]
		for _, t := range pl.p.Nodes[n].Ending {
			pl.world.Put(&topology.Rules{Sets: []int{t.Of}}, pl.p.Places[node.place], t.Count)
			if h := pl.host.sets[t.Of]; h >= 0 {
				node.sets[h] += t.Count
			}
		}
	}
}

// cameLate adds to lessons.awaited the nodes in pl.stay on which an assigned pod was placed after all. The round had assumed that these nodes get no
// assigned pod. cameLate reports whether it found any.
func (pl *placement) cameLate() bool {
	found := false
	for _, n := range pl.stay {
		if slices.ContainsFunc(pl.placed[n], func(share Share) bool { return pl.p.Classes[share.Class].Assigned == n+1 }) {
			pl.lessons.awaited.Add(n)
			found = true
		}
	}
	return found
}

// placeOnAssigned puts the next pod of the class on its assigned node, at the first level that allows it. It returns false if no level does.
func (pl *placement) placeOnAssigned(c int) bool {
	class := &pl.p.Classes[c]
	n := class.Assigned - 1
	for l := range class.Levels {
		pl.prepare(c, l)
		ls := &pl.classes[c].levels[l]
		if pl.nodes.clashes(ls.host, n) || !pl.hostAllows(ls, n) || class.Proposed && !pl.nodes.proposable(c, l, n) {
			continue
		}
		if _, ok := pl.world.Allows(ls.rules, pl.p.Places[pl.nodes.list[n].place]); ok {
			pl.onNode(c, l, n, 1)
			return true
		}
	}
	return false
}

// proposable reports whether a node that is only proposed admits the pod and has room for it.
func (ns *nodeStates) proposable(c, l, n int) bool {
	return ns.p.Classes[c].Levels[l].Nodes.Has(n) && ns.needs(c, n).Fits(ns.list[n].room)
}

// noteClosed stores the pod counts of the domains after pods have been put on their assigned nodes, and -1 for domains without machines. If machines
// are bought in a domain without machines after all, some of these pods may break the spread, because that domain is emptier.
func (pl *placement) noteClosed() {
	pl.closed = make([][]int, len(pl.p.Layout.Groups))
	for c := range pl.p.Classes {
		if pl.p.Classes[c].Assigned == 0 || pl.classes[c].next == 0 {
			continue
		}
		for l := range pl.p.Classes[c].Levels {
			for _, sp := range pl.classes[c].levels[l].spreads() {
				if pl.p.Layout.Groups[sp.Group].Key != topology.Host && pl.closed[sp.Group] == nil {
					pl.closed[sp.Group] = pl.world.Count(sp.Group)
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
func (pl *placement) wasClosed(group, domain int) bool {
	return pl.closed[group] != nil && pl.closed[group][domain] < 0
}
