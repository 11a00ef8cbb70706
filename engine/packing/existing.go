package packing

import (
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/bound"
	"tenon.sh/engine/capacity"
)

// nodeLoad is a number of pods of one class to put on one node.
type nodeLoad struct{ node, class, n int }

// nodeFilling is the question which pods get the room on existing nodes, as a problem of bound.Fillings.
type nodeFilling struct {
	bound.Problem
	ways     []*Ways
	admitted []bitset.Set // the nodes of each user
	classes  []int        // the class of each demand
	demandOf []int        // by class, its demand; -1 for none
	nodes    [][]int      // the nodes of each of Problem.Existing
	pods     int          // pods that need new machines
}

// fillNodes finds out which pods without rules should get the room on existing nodes, if the machines for the other pods are to cost least.
// It solves the program of bound.Fillings, in which nodes are machines that cost nothing. Pods with rules keep their room. It returns nil
// if there are no pods of several classes and one priority to choose from, or if the round is near the bound of that program already.
func (s *solver) fillNodes() []nodeLoad {
	if s.p.Effort == 0 || len(s.listing.machines) == 0 {
		return nil
	}
	nf := &nodeFilling{demandOf: make([]int, len(s.p.Classes))}
	nf.Devices, nf.Stop = make([]bool, len(s.p.Classes[0].Request)), s.p.Stop
	copy(nf.Devices, s.p.Devices)
	if !s.addClasses(nf) || !s.addNodes(nf) {
		return nil
	}
	pools := make([]int, len(s.market.pools))
	for i := range pools {
		pools[i] = i
	}
	nf.Supplies = s.market.suppliesOf(pools, nf.ways)
	effort := min(nf.pods*stepsForPod, s.p.Effort*Comparisons)
	s.market.look(effort * looksPerComparison)
	f := bound.Of(&nf.Problem).Fillings(effort)
	price := 0.0
	for i := range s.listing.machines {
		if slices.ContainsFunc(s.listing.machines[i].Pods, func(share Share) bool { return nf.demandOf[share.Class] >= 0 }) {
			price += s.market.priceOf(&s.listing.machines[i])
		}
	}
	if f == nil || price <= f.Value*nearBound {
		return nil
	}
	return nf.loads(f)
}

// addClasses adds the classes without rules. It returns false if there are fewer than two, or if they have several priorities.
func (s *solver) addClasses(nf *nodeFilling) bool {
	for c := range s.p.Classes {
		class := &s.p.Classes[c]
		nf.demandOf[c] = -1
		s.placement.prepare(c, 0)
		if len(class.Levels) > 1 || !s.placement.classes[c].levels[0].free || class.Assigned > 0 || len(s.placement.choicesOf(c, 0)) == 0 {
			continue
		}
		if len(nf.classes) > 0 && class.Priority != s.p.Classes[nf.classes[0]].Priority {
			return false // kube-scheduler gives the room to the pods with the highest priority
		}
		l := &class.Levels[0]
		user := 0
		for user < len(nf.ways) && (nf.ways[user] != l.Ways || !slices.Equal(nf.admitted[user], l.Nodes)) {
			user++
		}
		if user == len(nf.ways) {
			nf.ways, nf.admitted = append(nf.ways, l.Ways), append(nf.admitted, l.Nodes)
		}
		nf.demandOf[c] = len(nf.classes)
		nf.classes = append(nf.classes, c)
		nf.Demands = append(nf.Demands, bound.Demand{User: user, Request: class.Request, Count: class.Count})
		nf.pods += class.Count
	}
	return len(nf.classes) > 1
}

// addNodes adds the nodes with room for one of the classes. It returns false if there are none, if there are too many kinds, or if no pod needs a new
// machine.
func (s *solver) addNodes(nf *nodeFilling) bool {
	for n, shares := range s.placement.placed {
		room := s.p.Nodes[n].Free.Clone()
		for _, share := range shares {
			if nf.demandOf[share.Class] < 0 {
				room.Add(s.p.Classes[share.Class].Request, -int64(len(share.Pods)))
			} else {
				nf.pods -= len(share.Pods)
			}
		}
		if slices.ContainsFunc(nf.classes, func(c int) bool {
			return s.p.Classes[c].Levels[0].Nodes.Has(n) && s.p.Classes[c].Request.Fits(room)
		}) {
			nf.nodes = addExisting(&nf.Problem, nf.nodes, n, room, nf.admitted)
		}
		if len(nf.classes)+len(nf.nodes) > bound.MostKinds {
			return false
		}
	}
	return len(nf.nodes) > 0 && nf.pods > 0
}

// loads returns the pods that the fillings put on existing nodes. New machines are bought later, with all rules.
func (nf *nodeFilling) loads(f *bound.Fillings) (out []nodeLoad) {
	for _, filling := range f.Whole() {
		at := filling.Supply - len(nf.Supplies)
		if at < 0 {
			continue
		}
		n := int(filling.Machines)
		for _, node := range nf.nodes[at][:n] {
			for _, l := range filling.Loads {
				out = append(out, nodeLoad{node, nf.classes[l.Demand], l.Count})
			}
		}
		nf.nodes[at] = nf.nodes[at][n:]
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
