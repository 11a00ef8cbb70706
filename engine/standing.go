package engine

import (
	"cmp"
	"slices"
	"strings"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/topology"
)

// emptied notes a machine that is being removed: as long as it is there, a spread over machines counts it.
func (c *crowd) emptied(place int) {
	for i := range c.layout.Groups {
		g := &c.layout.Groups[i]
		g.Zero = g.Zero || g.Key == topology.Host && (g.Filter < 0 || c.list[place][g.Filter] == 1)
	}
}

// standing is what is counted of one machine.
type standing struct {
	place        int
	bears, shuns bitset.Set
	groups, sets []packing.Tally // each of them once
	doubtful     []packing.Tally // of the groups' pods, those that may not come
	ending       []packing.Tally
}

// machine notes that a machine is there, with or without pods.
func (c *crowd) machine(place int) *standing {
	for i := range c.layout.Groups {
		g := &c.layout.Groups[i]
		if p := c.list[place]; g.Key != topology.Host && p[g.Key] >= 0 && (g.Filter < 0 || p[g.Filter] == 1) {
			g.There.Add(int(p[g.Key]))
		}
	}
	return &standing{place: place}
}

// runs counts a pod that runs on the machine. Pods that are stopping keep others out, but are no part of what is spread;
// where another pod waits for that, they may be no company either.
func (c *crowd) runs(w *wishes, at *standing, f *podFacts, scratch []int, awaited bool) []int {
	matched := c.index.match(f.pod, scratch[:0])
	if len(matched) > 0 {
		ending := 0
		if f.ending {
			ending = 1
		}
		c.selected(at, matched, 1, ending, awaited)
	}
	c.holds(w, at, f)
	return matched
}

// runAll counts all pods of a node.
func (c *crowd) runAll(w *wishes, at *standing, r *roll) {
	if len(c.selectors) > 0 {
		for _, k := range r.kinds {
			if matched := k.kind.match(c.id, c.index); len(matched) > 0 {
				c.selected(at, matched, k.n, k.ending, false)
			}
		}
	}
	for _, f := range r.particular {
		c.holds(w, at, f)
	}
}

// holds notes what the pod keeps others from on its node.
func (c *crowd) holds(w *wishes, at *standing, f *podFacts) {
	if a := w.apartOf(f); a != nil {
		for _, t := range a.required {
			c.bear(at, c.terms[c.term[t]].owned, t.key)
		}
		for _, t := range a.preferred {
			if term, ok := c.term[t]; ok {
				c.bear(at, c.terms[term].soft, t.key)
			}
		}
	}
	if len(c.ports) > 0 {
		c.holdPorts(at, hostPortsOf(&f.pod.Spec))
	}
	if len(c.disks) > 0 {
		c.holdDisks(at, w.volumes.of(f.pod).Disks)
	}
}

// selected counts n pods that the selectors are about; so many of them are ending. Pods whose end is awaited are no company.
func (c *crowd) selected(at *standing, matched []int, n, ending int, awaited bool) {
	place := c.list[at.place]
	for i := range c.groups {
		g := &c.layout.Groups[i]
		if n == ending || !slices.Contains(matched, c.groups[i].selector) || c.selectors[c.groups[i].selector].everything() {
			continue
		}
		if g.Filter >= 0 && place[g.Filter] != 1 {
			continue
		}
		if g.Key == topology.Host {
			at.groups = tallied(at.groups, i, n-ending)
		} else if d := place[g.Key]; d >= 0 {
			g.Count[d] += n - ending
		}
	}
	for i := range c.sets {
		switch {
		case !c.inSet(i, matched):
		case awaited:
			at.ending = append(at.ending, packing.Tally{Of: i, Count: 1})
		default:
			c.joinSet(at, i, place, n)
		}
	}
	for i := range c.terms {
		if t := &c.terms[i]; t.selected >= 0 && slices.Contains(matched, t.selector) {
			c.bear(at, t.selected, t.key)
		}
	}
}

// inSet reports whether a pod that the matched selectors, which are in order, are about is one of those that the set's affinity looks for.
func (c *crowd) inSet(set int, matched []int) bool {
	return c.sets[set].claim == nil && !slices.ContainsFunc(c.sets[set].terms, func(t crowdTarget) bool {
		_, is := slices.BinarySearch(matched, t.selector)
		return !is
	})
}

func (c *crowd) joinSet(at *standing, set int, place topology.Place, n int) {
	s := &c.layout.Sets[set]
	counted := false
	for k, key := range s.Keys {
		if key == topology.Host {
			at.sets = tallied(at.sets, set, n)
			counted = true
		} else if d := place[key]; d >= 0 {
			s.Count[k][d] += n
			counted = true
		}
	}
	if counted {
		s.Total += n
	}
}

// bear puts a mark on the machine, or on its domain.
func (c *crowd) bear(at *standing, mark int, key string) {
	if mark < 0 {
		return
	}
	if isHost(key) {
		if at.bears == nil {
			at.bears = bitset.New(c.layout.HostMarks)
		}
		at.bears.Add(mark)
		return
	}
	c.bearMark(at, mark)
}

// bearMark puts a mark on the machine's domain.
func (c *crowd) bearMark(at *standing, mark int) {
	m := &c.layout.Marks[mark]
	switch d := c.list[at.place][m.Key]; {
	case d >= 0:
		m.At.Add(int(d))
	case d == topology.Open: // it may turn out to be any of them
		m.At.Or(bitset.Full(c.layout.Domains[m.Key]))
	}
}

func (c *crowd) shun(at *standing, mark int) {
	if at.shuns == nil {
		at.shuns = bitset.New(c.layout.HostMarks)
	}
	at.shuns.Add(mark)
}

func (c *crowd) holdPorts(at *standing, ports []hostPort) {
	for _, held := range ports {
		c.colliding(held, func(i int) { c.shun(at, c.portMark(i)) })
	}
}

func (c *crowd) holdDisks(at *standing, disks []disk) {
	for _, held := range disks {
		i, _ := slices.BinarySearchFunc(c.disks, held.id, func(d disk, id string) int { return strings.Compare(d.id, id) })
		for ; i < len(c.disks) && c.disks[i].id == held.id; i++ {
			if held.conflicts(c.disks[i]) {
				c.shun(at, c.diskMark(i))
			}
		}
	}
}

// tallied adds to the count of one of the list.
func tallied(list []packing.Tally, of, n int) []packing.Tally {
	for i := range list {
		if list[i].Of == of {
			list[i].Count += n
			return list
		}
	}
	return append(list, packing.Tally{Of: of, Count: n})
}

// node is the machine as a node of the packing problem.
func (at *standing) node(free capacity.Vector) packing.Node {
	for _, list := range [][]packing.Tally{at.groups, at.sets, at.doubtful} {
		slices.SortFunc(list, func(a, b packing.Tally) int { return cmp.Compare(a.Of, b.Of) })
	}
	return packing.Node{Free: free, Place: at.place, Bears: at.bears, Shuns: at.shuns, Groups: at.groups, Sets: at.sets, Doubtful: at.doubtful, Ending: at.ending}
}
