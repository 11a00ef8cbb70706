package packing

import (
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/topology"
)

// A replay goes through what a round has placed once more, with the machines that were really bought and with nobody who got
// none: rules that were met only thanks to a pod that is not placed after all are found out, and pods that have no place may
// find one on a node.
type replay struct {
	*solver           // with all machines as further nodes
	round   *solver   // whose placements these are
	at      [][]int   // of each class and pod, the node that it is to go to; -1 for none
	level   [][]int   // and the level at which it goes there
	ok      [][]bool  // the pod is there
	late    []Pod     // pods that found a node after all, with their nodes in at
	changes int       // counts what was placed
	failed  []attempt // of each class
	bought  int       // machines for pods that had no place
}

// attempt is when a class was last found to have nowhere to go.
type attempt struct {
	tried   bool
	changes int
}

// replay makes the round's placements right.
func (s *solver) replay() {
	if !s.ruled() {
		return
	}
	r := newReplay(s)
	r.placeAll()
	for len(s.p.Layout.Residents) > 0 && r.dropIdle() { // whose residents will not be there
		r = newReplay(s)
		r.placeAll()
	}
	r.placeLate()
	r.report()
}

// dropIdle takes the machines out of the round to which no pod came; it answers false if there are none.
func (r *replay) dropIdle() bool {
	used := make([]bool, len(r.nodes))
	for _, pod := range r.order {
		used[r.at[pod.Class][pod.Number]] = true
	}
	var kept []Machine
	for i, m := range r.round.machines {
		if used[len(r.p.Nodes)+i] {
			kept = append(kept, m)
		}
	}
	dropped := len(kept) < len(r.round.machines)
	if dropped {
		r.round.machines, r.round.bound = kept, 0
	}
	return dropped
}

// ruled reports whether there is any rule between pods.
func (s *solver) ruled() bool {
	l := &s.p.Layout
	return len(l.Groups)+len(l.Sets)+len(l.Marks)+l.HostMarks+len(l.Available) > 0
}

func newReplay(s *solver) *replay {
	r := &replay{solver: newSolver(s.p, s.lessons, len(s.machines)), round: s, failed: make([]attempt, len(s.p.Classes))}
	r.complete = true
	for c := range s.p.Classes {
		n := s.p.Classes[c].Count
		r.at, r.level, r.ok = append(r.at, make([]int, n)), append(r.level, make([]int, n)), append(r.ok, make([]bool, n))
		for i := range n {
			r.at[c][i] = -1
		}
	}
	r.countEnding(s.stay)
	for n := range s.placed {
		r.send(s.placed[n], n)
	}
	for i := range s.machines {
		r.send(s.machines[i].Pods, len(r.nodes))
		r.addMachine(&s.machines[i])
	}
	for i, pod := range s.order {
		r.level[pod.Class][pod.Number] = s.levels[i]
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

// addMachine makes the machine one more node. Wherever it may turn out to be, it is there for those who count.
func (r *replay) addMachine(m *Machine) {
	options := r.pools[m.Pool].Options
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
	r.nodes = append(r.nodes, node)
}

// placeAll places all pods in their order. Those that cannot go yet are tried again after the others.
func (r *replay) placeAll() {
	waiting := r.round.order
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

// place puts the pod where it is to go, at the level that was meant or one that asks for less.
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

// allows checks all rules for one more pod of the class on the node.
func (r *replay) allows(c, l, n int) bool {
	ls := &r.classes[c].levels[l]
	if ls.free {
		return true
	}
	if r.clashes(ls.host, n) || !r.hostAllows(ls, n) {
		return false
	}
	r.look(8 + ls.rules.Len())
	_, ok := r.world.Allows(ls.rules, r.p.Places[r.nodes[n].place])
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
	order := r.queueOrder()
	for before := -1; before < r.changes; {
		before = r.changes
		for _, c := range order {
			for i, ok := range r.ok[c] {
				if !ok && !r.findLate(Pod{c, i}) {
					break // they are all alike
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
			domain := ls.view.domains[ls.view.domainAt[r.nodes[n].place]]
			if !slices.Contains(domain, topology.Open) && r.takes(c, l, n) {
				r.putLate(pod, l, n)
				return true
			}
		}
		for i := range r.round.machines {
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
	return r.needs(c, n).Fits(r.nodes[n].room) && r.allows(c, l, n)
}

// joins reports whether a pod of the class can use the machine whatever it turns out to be, as it is.
func (r *replay) joins(c, l, machine int) bool {
	m := &r.round.machines[machine]
	domainAt := r.classes[c].levels[l].view.domainAt
	others := r.nodes[len(r.p.Nodes)+machine].others
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

// report gives the round what is right of its placements.
func (r *replay) report() {
	s := r.round
	s.order, s.levels, s.world = r.order, r.levels, r.world
	for n := range s.placed {
		s.placed[n] = r.right(s.placed[n], n)
	}
	for i := range s.machines {
		s.machines[i].Pods = r.right(s.machines[i].Pods, len(s.placed)+i)
	}
	for _, pod := range r.late {
		share := Share{pod.Class, []int{pod.Number}}
		if n := r.at[pod.Class][pod.Number]; n < len(s.placed) {
			s.placed[n] = append(s.placed[n], share)
		} else {
			m := &s.machines[n-len(s.placed)]
			m.Pods = append(m.Pods, share)
		}
	}
	var kept []Machine
	for _, m := range s.machines {
		if len(m.Pods) > 0 {
			kept = append(kept, m)
		}
	}
	if len(kept) < len(s.machines) {
		s.machines, s.bound = kept, 0 // what the bound was worked out for is not bought
	}
	r.openDomains() // for those who ask why some pods have no place
}

// right keeps, of the shares of a node, the pods that are there.
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
