package packing

import (
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/topology"
)

// A replay is a second placement of the pods of a round, with the machines that were really bought and without the pods that got no machine. It finds
// pods whose rules were met only because of a pod that has no place in the end. It also looks for nodes for pods without a place.
type replay struct {
	*placement           // its nodes include all machines
	round      *solver   // the round that is replayed
	at         [][]int   // of each class and pod, the node on which it should be placed; -1 for none
	level      [][]int   // of each class and pod, the level at which it is placed there
	ok         [][]bool  // of each class and pod, whether the replay has placed it there
	late       []Pod     // pods that found a node only now; at has their nodes
	changes    int       // the number of placements so far
	failed     []attempt // the last failed attempt of each class
	bought     int       // machines bought for pods without a place
}

// attempt holds the value of changes at the time when the class last found no place.
type attempt struct {
	tried   bool
	changes int
}

// replay corrects the round's placements.
func (s *solver) replay() {
	if !s.ruled() {
		return
	}
	r := newReplay(s)
	r.placeAll()
	for len(s.p.Layout.Residents) > 0 && r.dropIdle() { // the residents of these machines will not be there
		r = newReplay(s)
		r.placeAll()
	}
	r.placeLate()
	r.report()
}

// dropIdle removes the machines without new pods from the round; it reports false if there are none.
func (r *replay) dropIdle() bool {
	used := make([]bool, len(r.nodes.list))
	for _, pod := range r.order {
		used[r.at[pod.Class][pod.Number]] = true
	}
	var kept []Machine
	for i, m := range r.round.listing.machines {
		if used[len(r.p.Nodes)+i] {
			kept = append(kept, m)
		}
	}
	dropped := len(kept) < len(r.round.listing.machines)
	if dropped {
		r.round.listing.machines, r.round.search.bound = kept, 0
	}
	return dropped
}

// ruled reports whether there is any rule between pods.
func (s *solver) ruled() bool {
	l := &s.p.Layout
	return len(l.Groups)+len(l.Sets)+len(l.Marks)+l.HostMarks+len(l.Available) > 0
}

func newReplay(s *solver) *replay {
	r := &replay{placement: &newSolver(s.p, s.placement.lessons, len(s.listing.machines)).placement, round: s, failed: make([]attempt, len(s.p.Classes))}
	r.complete = true
	for c := range s.p.Classes {
		n := s.p.Classes[c].Count
		r.at, r.level, r.ok = append(r.at, make([]int, n)), append(r.level, make([]int, n)), append(r.ok, make([]bool, n))
		for i := range n {
			r.at[c][i] = -1
		}
	}
	r.countEnding(s.placement.stay)
	for n := range s.placement.placed {
		r.send(s.placement.placed[n], n)
	}
	for i := range s.listing.machines {
		r.send(s.listing.machines[i].Pods, len(r.nodes.list))
		r.addMachine(&s.listing.machines[i])
	}
	for i, pod := range s.placement.order {
		r.level[pod.Class][pod.Number] = s.placement.levels[i]
	}
	return r
}

func (r *replay) send(shares []Share, node int) {
	for _, share := range shares {
		for _, pod := range share.Pods {
			r.at[share.Class][pod] = node
		}
	}
}

// addMachine makes the machine one more node. It opens all domains in which the machine may turn out to be.
func (r *replay) addMachine(m *Machine) {
	options := r.market.pools[m.Pool].Options
	node := nodeState{place: options[m.Chosen].Place, room: options[m.Chosen].Allocatable.Clone()}
	for _, o := range m.Listed {
		node.room.Min(options[o].Allocatable)
	}
	node.groups, node.sets = make([]int, r.host.nGroups), make([]int, r.host.nSets)
	r.placeIn(&node, m)
	seen := bitset.New(len(r.p.Places))
	for _, o := range m.Listed {
		if seen.Has(options[o].Place) {
			continue
		}
		seen.Add(options[o].Place)
		node.others = append(node.others, options[o].Place)
		for g := range r.p.Layout.Groups {
			r.world.Open(g, r.p.Places[options[o].Place])
		}
	}
	r.nodes.list = append(r.nodes.list, node)
}

// placeAll places all pods in their order. Pods that are not allowed yet are tried again after the others.
func (r *replay) placeAll() {
	waiting := r.round.placement.order
	for {
		var late []Pod
		for _, pod := range waiting {
			if r.at[pod.Class][pod.Number] >= 0 && !r.place(pod) {
				late = append(late, pod)
			}
		}
		if len(late) == 0 || len(late) == len(waiting) {
			return
		}
		waiting = late
	}
}

// place puts the pod on its node, at its level or a later one. It returns false if no level allows that.
func (r *replay) place(pod Pod) bool {
	c, n := pod.Class, r.at[pod.Class][pod.Number]
	for l := r.level[c][pod.Number]; l < len(r.p.Classes[c].Levels); l++ {
		r.prepare(c, l)
		if r.allows(c, l, n) {
			r.put(pod, l, n)
			return true
		}
	}
	return false
}

// allows reports whether all rules are met for one more pod of the class on the node.
func (r *replay) allows(c, l, n int) bool {
	ls := &r.classes[c].levels[l]
	if ls.free {
		return true
	}
	if r.nodes.clashes(ls.host, n) || !r.hostAllows(ls, n) {
		return false
	}
	r.market.look(8 + ls.rules.Len())
	_, ok := r.world.Allows(ls.rules, r.p.Places[r.nodes.list[n].place])
	return ok
}

func (r *replay) put(pod Pod, l, n int) {
	r.occupy(pod.Class, l, n, 1)
	r.order, r.levels = append(r.order, pod), append(r.levels, l)
	r.ok[pod.Class][pod.Number] = true
	r.changes++
}

// placeLate looks for nodes for the pods that have no place.
func (r *replay) placeLate() {
	order := r.p.queueOrder()
	for before := -1; before < r.changes; {
		before = r.changes
		for _, c := range order {
			for i, ok := range r.ok[c] {
				if !ok && !r.findLate(Pod{c, i}) {
					break // the other pods of the class are equal
				}
			}
		}
	}
}

func (r *replay) findLate(pod Pod) bool {
	c := pod.Class
	if f := r.failed[c]; f.tried && f.changes == r.changes || r.p.spent() {
		return false
	}
	for l := range r.p.Classes[c].Levels {
		r.prepare(c, l)
		if n := r.p.Classes[c].Assigned - 1; n >= 0 && r.takes(c, l, n) {
			r.putLate(pod, l, n)
			return true
		}
	}
	for l := range r.p.Classes[c].Levels {
		ls := &r.classes[c].levels[l]
		for _, n := range r.candidates(c, l) {
			domain := ls.view.domains[ls.view.domainAt[r.nodes.list[n].place]]
			if !slices.Contains(domain, topology.Open) && r.takes(c, l, n) {
				r.putLate(pod, l, n)
				return true
			}
		}
		for i := range r.round.listing.machines {
			if n := len(r.p.Nodes) + i; r.joins(c, l, i) && r.takes(c, l, n) {
				r.putLate(pod, l, n)
				return true
			}
		}
		if r.buyLate(pod, l) {
			return true
		}
	}
	r.failed[c] = attempt{true, r.changes}
	return false
}

// takes reports whether there is room for one more pod of the class, and the rules allow it.
func (r *replay) takes(c, l, n int) bool {
	return r.nodes.needs(c, n).Fits(r.nodes.list[n].room) && r.allows(c, l, n)
}

// joins reports whether a pod of the class can use the machine as it was bought, for every option that the cloud may choose.
func (r *replay) joins(c, l, machine int) bool {
	m := &r.round.listing.machines[machine]
	domainAt := r.classes[c].levels[l].view.domainAt
	others := r.nodes.list[len(r.p.Nodes)+machine].others
	if slices.ContainsFunc(others, func(place int) bool { return domainAt[place] != domainAt[others[0]] }) {
		return false
	}
	return slices.ContainsFunc(r.p.Classes[c].Levels[l].Ways.Pools[m.Pool], func(way Way) bool {
		if slices.ContainsFunc(m.Listed, func(o int) bool { return !way.Options.Has(o) }) {
			return false
		}
		for k, narrowed := range way.Free {
			if narrowed != nil && !m.Free[k].Within(narrowed) {
				return false
			}
		}
		return true
	})
}

func (r *replay) putLate(pod Pod, l, n int) {
	r.at[pod.Class][pod.Number] = n
	r.late = append(r.late, pod)
	r.put(pod, l, n)
}

// report gives the round the correct placements.
func (r *replay) report() {
	s := r.round
	s.placement.order, s.placement.levels, s.placement.world = r.order, r.levels, r.world
	for n := range s.placement.placed {
		s.placement.placed[n] = r.right(s.placement.placed[n], n)
	}
	for i := range s.listing.machines {
		s.listing.machines[i].Pods = r.right(s.listing.machines[i].Pods, len(s.placement.placed)+i)
	}
	for _, pod := range r.late {
		share := Share{pod.Class, []int{pod.Number}}
		if n := r.at[pod.Class][pod.Number]; n < len(s.placement.placed) {
			s.placement.placed[n] = append(s.placement.placed[n], share)
		} else {
			m := &s.listing.machines[n-len(s.placement.placed)]
			m.Pods = append(m.Pods, share)
		}
	}
	var kept []Machine
	for _, m := range s.listing.machines {
		if len(m.Pods) > 0 {
			kept = append(kept, m)
		}
	}
	if len(kept) < len(s.listing.machines) {
		s.listing.machines, s.search.bound = kept, 0 // the bound was for machines that are not bought
	}
	r.openDomains() // for explanations of pods without a place
}

// right returns the shares of a node with only those pods that are still there after the replay.
func (r *replay) right(shares []Share, node int) (out []Share) {
	for _, share := range shares {
		pods := slices.DeleteFunc(slices.Clone(share.Pods), func(i int) bool {
			return !r.ok[share.Class][i] || r.at[share.Class][i] != node || slices.Contains(r.late, Pod{share.Class, i})
		})
		if len(pods) > 0 {
			out = append(out, Share{share.Class, pods})
		}
	}
	return out
}
