package packing

import (
	"fmt"
	"math"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/topology"
)

// hostIndex maps the groups and sets that are counted for each machine to consecutive indexes.
type hostIndex struct {
	groups, sets []int // of each group and set, its host index; -1 for those of other keys
	nGroups      int
	nSets        int
	owned        []bool // groups that some pending pod's spread bounds
}

func (h *hostIndex) build(l *topology.Layout) {
	h.owned = make([]bool, len(l.Groups))
	for i := range l.Groups {
		h.groups = append(h.groups, -1)
		if l.Groups[i].Key == topology.Host {
			h.groups[i] = h.nGroups
			h.nGroups++
		}
	}
	for i := range l.Sets {
		h.sets = append(h.sets, -1)
		if l.Sets[i].WithHost() {
			h.sets[i] = h.nSets
			h.nSets++
		}
	}
}

// nodeStates is the nodes of a round.
type nodeStates struct {
	p         *Problem
	world     *topology.World
	host      *hostIndex
	list      []nodeState
	roomy     []int // the result of roomyNodes, once roomyRead
	roomyRead bool
}

// nodeState is an existing node or, in a replay, also a new machine, with the pods that were put there.
type nodeState struct {
	room         capacity.Vector
	place        int
	has          bitset.Set
	bears, shuns bitset.Set
	groups, sets []int
	doubtful     []int // of each group, the number of pods that may not be placed here after all; nil for none
	// others lists the places that a new machine may turn out to be in; nil for a node.
	others []int
}

// newNodeStates returns the nodes before the round puts pods on them. The counts of the nodes lie side by side in memory, because there are many
// nodes and every round begins with new ones. The list has capacity for "more" further nodes.
func newNodeStates(nodes []Node, h *hostIndex, more int) []nodeState {
	dims := 0
	for i := range nodes {
		dims += len(nodes[i].Free)
	}
	out := make([]nodeState, len(nodes), len(nodes)+more)
	free := make(capacity.Vector, 0, dims)
	counts := make([]int, len(nodes)*(h.nGroups+h.nSets))
	take := func(n int) []int {
		if n == 0 {
			return nil
		}
		list := counts[:n:n]
		counts = counts[n:]
		return list
	}
	for i := range nodes {
		n := &nodes[i]
		from := len(free)
		free = append(free, n.Free...)
		s := &out[i]
		*s = nodeState{room: free[from:len(free):len(free)], place: n.Place, has: n.Has, bears: n.Owns, shuns: n.Rejects}
		s.groups, s.sets = take(h.nGroups), take(h.nSets)
		for _, t := range n.Groups {
			s.groups[h.groups[t.Of]] = t.Count
		}
		for _, t := range n.Sets {
			s.sets[h.sets[t.Of]] = t.Count
		}
		for _, t := range n.Doubtful {
			s.doubt(h.groups[t.Of], t.Count, h)
		}
	}
	return out
}

// needs returns the resources that one more pod of the class takes of the node.
func (ns *nodeStates) needs(c, n int) capacity.Vector {
	return lacking(ns.p.Classes[c].Request, ns.p.Classes[c].Shared, ns.list[n].has)
}

// bring notes the shared things that a pod of the class brings to the node.
func (ns *nodeStates) bring(c, n int) {
	ns.list[n].has = ns.p.withThings(ns.list[n].has, ns.p.Classes[c].Shared)
}

// hostRules is the part of a level's rules that concerns single machines. Equal hostRules are the same pointer.
type hostRules struct {
	owns, rejects bitset.Set
	groups        []int // host indexes of the groups that count the pod
	bounds        []int // of each of these groups, the bound by the pod's own spreads
	spread        []hostSpread
	others        []hostSpread // the spreads over groups that do not count the pod
	touched       []int        // the groups that count the pod or that a spread bounds, each once
	spreads       []int        // groups of other keys over which the pod is spread: two of their pods should rather not share a machine
	shared        []Shared     // things that only the first pod takes of the machine
}

// hostSpread bounds the pods of a host group on each machine.
type hostSpread struct {
	group, most int
	self        bool
}

// none reports whether the rules concern no other pods.
func (r *hostRules) none() bool {
	return r.owns == nil && r.rejects == nil && len(r.groups) == 0 && len(r.spread) == 0
}

// alone reports whether two pods with these rules cannot share a machine.
func (r *hostRules) alone() bool { return r.most() == 1 }

// most returns how many pods with these rules a machine takes; 0 means any number, also for nil.
func (r *hostRules) most() int {
	if r == nil {
		return 0
	}
	if meets(r.owns, r.rejects) {
		return 1
	}
	most := 0
	for _, s := range r.spread {
		if s.self && (most == 0 || s.most < most) {
			most = s.most
		}
	}
	return most
}

func meets(a, b bitset.Set) bool { return len(a) > 0 && len(b) > 0 && a.Meets(b) }

// clash reports whether pods with these rules cannot share a machine because of their marks.
func clash(a, b *hostRules) bool { return meets(a.owns, b.rejects) || meets(b.owns, a.rejects) }

// hostReader reads the rules of classes that concern single machines, and the things that pods share on a machine.
type hostReader struct {
	p       *Problem
	host    *hostIndex
	hostIDs map[string]*hostRules
	own     []capacity.Vector // of each class, its request without the shared things that others may have brought to the machine
	sharers []int             // of each thing, the pods that share it
}

// hostRulesOf reads the rules about single machines of a class with these rules and shared things.
func (hr *hostReader) hostRulesOf(r *topology.Rules, shared []Shared) *hostRules {
	if r == nil {
		r = noRules
	}
	out := &hostRules{owns: nonEmpty(r.HostOwns), rejects: nonEmpty(r.HostRejects), shared: hr.sharing(shared)}
	for _, g := range r.Groups {
		if h := hr.host.groups[g]; h >= 0 {
			out.groups = append(out.groups, h)
		}
	}
	for _, sp := range r.Spread {
		if h := hr.host.groups[sp.Group]; h >= 0 {
			out.spread = append(out.spread, hostSpread{h, sp.MaxSkew, sp.Self})
		} else if sp.Self {
			out.spreads = append(out.spreads, sp.Group)
		}
	}
	out.bound()
	return hr.intern(out)
}

// bound sets the fields that follow from the groups and spreads.
func (r *hostRules) bound() {
	r.touched, r.bounds, r.others = slices.Clone(r.groups), make([]int, 0, len(r.groups)), nil
	at := map[int]int{}
	for i, g := range r.groups {
		at[g] = i
		r.bounds = append(r.bounds, math.MaxInt)
	}
	for _, sp := range r.spread {
		i, known := at[sp.group]
		if !known {
			i = len(r.touched)
			at[sp.group] = i
			r.touched = append(r.touched, sp.group)
		}
		if i < len(r.groups) {
			r.bounds[i] = min(r.bounds[i], sp.most)
		} else if !sp.self {
			r.others = append(r.others, sp)
		}
	}
}

// intern returns the same pointer for all equal rules.
func (hr *hostReader) intern(r *hostRules) *hostRules {
	key := fmt.Sprint(r.owns, r.rejects, r.groups, r.spread, r.spreads, r.shared)
	if have, ok := hr.hostIDs[key]; ok {
		return have
	}
	hr.hostIDs[key] = r
	return r
}

func nonEmpty(b bitset.Set) bitset.Set {
	if b.Empty() {
		return nil
	}
	return b
}

// union returns the union of a and b, either of which may be nil, and changes neither.
func union(a, b bitset.Set) bitset.Set {
	switch {
	case b == nil:
		return a
	case a == nil:
		return b
	}
	out := a.Clone()
	out.Or(b)
	return out
}

var noRules = &topology.Rules{}
