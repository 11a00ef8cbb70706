package packing

import (
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/bound"
	"tenon.sh/engine/capacity"
)

// nodeLoad is a number of pods of one class to put on one node.
type nodeLoad struct{ node, class, n int }

// fillNodes finds out which pods without rules should get the room on existing nodes, if the machines for the other pods are to cost least.
// It solves the program of bound.Fillings, in which nodes are machines that cost nothing. Pods with rules keep their room. It returns nil
// if there are no pods of several classes and one priority to choose from, or if the round is near the bound of that program already.
func (s *solver) fillNodes() []nodeLoad {
	if s.p.Effort == 0 || len(s.listing.machines) == 0 {
		return nil
	}
	p := bound.Problem{Devices: make([]bool, len(s.p.Classes[0].Request)), Stop: s.p.Stop}
	copy(p.Devices, s.p.Devices)
	var ways []*Ways
	var admitted []bitset.Set                          // the nodes of each user
	var classes []int                                  // the class of each demand
	pods, demandOf := 0, make([]int, len(s.p.Classes)) // pods that need new machines
	for c := range s.p.Classes {
		class := &s.p.Classes[c]
		demandOf[c] = -1
		s.placement.prepare(c, 0)
		if len(class.Levels) > 1 || !s.placement.classes[c].levels[0].free || class.Assigned > 0 || len(s.placement.choicesOf(c, 0)) == 0 {
			continue
		}
		if len(classes) > 0 && class.Priority != s.p.Classes[classes[0]].Priority {
			return nil // kube-scheduler gives the room to the pods with the highest priority
		}
		l := &class.Levels[0]
		user := 0
		for user < len(ways) && (ways[user] != l.Ways || !slices.Equal(admitted[user], l.Nodes)) {
			user++
		}
		if user == len(ways) {
			ways, admitted = append(ways, l.Ways), append(admitted, l.Nodes)
		}
		demandOf[c] = len(classes)
		classes = append(classes, c)
		p.Demands = append(p.Demands, bound.Demand{User: user, Request: class.Request, Count: class.Count})
		pods += class.Count
	}
	var nodes [][]int // the nodes of each of p.Existing
	if len(classes) < 2 {
		return nil
	}
	for n, shares := range s.placement.placed {
		room := s.p.Nodes[n].Free.Clone()
		for _, share := range shares {
			if demandOf[share.Class] < 0 {
				room.Add(s.p.Classes[share.Class].Request, -int64(len(share.Pods)))
			} else {
				pods -= len(share.Pods)
			}
		}
		if slices.ContainsFunc(classes, func(c int) bool {
			return s.p.Classes[c].Levels[0].Nodes.Has(n) && s.p.Classes[c].Request.Fits(room)
		}) {
			nodes = addExisting(&p, nodes, n, room, admitted)
		}
		if len(classes)+len(nodes) > bound.MostKinds {
			return nil
		}
	}
	if len(nodes) == 0 || pods == 0 {
		return nil
	}
	pools := make([]int, len(s.market.pools))
	for i := range pools {
		pools[i] = i
	}
	p.Supplies = s.market.suppliesOf(pools, ways)
	effort := min(pods*stepsForPod, s.p.Effort*Comparisons)
	s.market.look(effort * looksPerComparison)
	f := bound.Of(&p).Fillings(effort)
	price := 0.0
	for i := range s.listing.machines {
		if slices.ContainsFunc(s.listing.machines[i].Pods, func(share Share) bool { return demandOf[share.Class] >= 0 }) {
			price += s.market.priceOf(&s.listing.machines[i])
		}
	}
	if f == nil || price <= f.Value*nearBound {
		return nil
	}
	var out []nodeLoad
	for _, filling := range f.Whole() {
		at := filling.Supply - len(p.Supplies)
		if at < 0 {
			continue // new machines are bought later, with all rules
		}
		n := int(filling.Machines)
		for _, node := range nodes[at][:n] {
			for _, l := range filling.Loads {
				out = append(out, nodeLoad{node, classes[l.Demand], l.Count})
			}
		}
		nodes[at] = nodes[at][n:]
	}
	return out
}

// addExisting adds the node to the nodes with the same room for the same users.
func addExisting(p *bound.Problem, nodes [][]int, n int, room capacity.Vector, admitted []bitset.Set) [][]int {
	users := bitset.New(len(admitted))
	for i := range admitted {
		if admitted[i].Has(n) {
			users.Add(i)
		}
	}
	at := slices.IndexFunc(p.Existing, func(e bound.Existing) bool { return slices.Equal(e.Room, room) && slices.Equal(e.Users, users) })
	if at < 0 {
		at = len(p.Existing)
		p.Existing, nodes = append(p.Existing, bound.Existing{Room: room, Users: users}), append(nodes, nil)
	}
	p.Existing[at].Count++
	nodes[at] = append(nodes[at], n)
	return nodes
}

// placeFillings puts pods on nodes as fillNodes has found.
func (pl *placement) placeFillings() {
	for _, l := range pl.lessons.onNodes {
		pl.prepare(l.class, 0)
		n := min(l.n, pl.p.Classes[l.class].Count-pl.classes[l.class].next)
		if n = pl.p.Classes[l.class].Request.Times(pl.nodes.list[l.node].room, n); n > 0 {
			pl.onNode(l.class, 0, l.node, n)
		}
	}
}
