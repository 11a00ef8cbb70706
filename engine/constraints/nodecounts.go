package constraints

import (
	"cmp"
	"slices"
	"strings"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/topology"
	"tenon.sh/engine/volume"
)

// Emptied notes a machine that is being removed. As long as its node exists, a spread over machines includes it as an empty one.
func (c *InterPod) Emptied(place int) {
	for i := range c.Layout.Groups {
		g := &c.Layout.Groups[i]
		g.Zero = g.Zero || g.Key == topology.Host && (g.Filter < 0 || c.List[place][g.Filter] == 1)
	}
}

// NodeCounts holds the counts and marks of one machine.
type NodeCounts struct {
	place         int
	owns, rejects bitset.Set
	groups, sets  []packing.Tally // each group and set once
	doubtful      []packing.Tally // of each group, the pods that may not run here after all
	ending        []packing.Tally
}

// Machine notes that a machine exists, with or without pods.
func (c *InterPod) Machine(place int) *NodeCounts {
	for i := range c.Layout.Groups {
		g := &c.Layout.Groups[i]
		if p := c.List[place]; g.Key != topology.Host && p[g.Key] >= 0 && (g.Filter < 0 || p[g.Filter] == 1) {
			g.There.Add(int(p[g.Key]))
		}
	}
	return &NodeCounts{place: place}
}

// Runs counts a pod that runs on the machine. A stopping pod keeps other pods out, but is ignored by spreads. If awaited is true, another pod waits
// for its end, and affinity may ignore the stopping pod too.
func (c *InterPod) Runs(w *Reader, at *NodeCounts, info *inventory.PodInfo, scratch []int, awaited bool) []int {
	matched := c.Index.Match(info.Pod, scratch[:0])
	if len(matched) > 0 {
		ending := 0
		if info.Ending {
			ending = 1
		}
		c.selected(at, matched, 1, ending, awaited)
	}
	c.holds(w, at, info)
	return matched
}

// RunAll counts all pods of a node.
func (c *InterPod) RunAll(w *Reader, at *NodeCounts, r *inventory.NodePods) {
	if len(c.Selectors) > 0 {
		for _, k := range r.Kinds {
			if matched := k.Kind.Match(c.ID, c.Index); len(matched) > 0 {
				c.selected(at, matched, k.N, k.Ending, false)
			}
		}
	}
	for _, info := range r.Particular {
		c.holds(w, at, info)
	}
}

// holds adds the marks by which the pod keeps others off its node.
func (c *InterPod) holds(w *Reader, at *NodeCounts, info *inventory.PodInfo) {
	if a := w.AntiAffinityOf(info); a != nil {
		for _, t := range a.Required {
			c.own(at, c.Terms[c.Term[t]].Owned, t.Key)
		}
		for _, t := range a.Preferred {
			if term, ok := c.Term[t.AffinityTerm]; ok {
				c.own(at, c.Terms[term].Soft, t.Key)
			}
		}
	}
	if len(c.ports) > 0 {
		c.HoldPorts(at, kube.HostPortsOf(&info.Pod.Spec))
	}
	if len(c.Disks) > 0 {
		c.holdDisks(at, w.Volumes.Of(info.Pod).Disks)
	}
}

// selected counts n pods that match the selectors; `ending` of them are stopping. If awaited is true, another pod waits for the end of the stopping
// pods, and affinity ignores them.
func (c *InterPod) selected(at *NodeCounts, matched []int, n, ending int, awaited bool) {
	place := c.List[at.place]
	for i := range c.Groups {
		g := &c.Layout.Groups[i]
		if n == ending || !slices.Contains(matched, c.Groups[i].Selector) || c.Selectors[c.Groups[i].Selector].Everything() {
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
	for i := range c.Sets {
		switch {
		case !c.InSet(i, matched):
		case awaited:
			at.ending = append(at.ending, packing.Tally{Of: i, Count: 1})
		default:
			c.joinSet(at, i, place, n)
		}
	}
	for i := range c.Terms {
		if t := &c.Terms[i]; t.Selected >= 0 && slices.Contains(matched, t.Selector) {
			c.own(at, t.Selected, t.Key)
		}
	}
}

// InSet reports whether a pod with these matched selectors, in ascending order, belongs to the set of an affinity.
func (c *InterPod) InSet(set int, matched []int) bool {
	return c.Sets[set].Claim == nil && !slices.ContainsFunc(c.Sets[set].Terms, func(t affinityTarget) bool {
		_, is := slices.BinarySearch(matched, t.Selector)
		return !is
	})
}

func (c *InterPod) joinSet(at *NodeCounts, set int, place topology.Place, n int) {
	s := &c.Layout.Sets[set]
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

// own puts a mark on the machine, or on its domain.
func (c *InterPod) own(at *NodeCounts, mark int, key string) {
	if mark < 0 {
		return
	}
	if kube.IsHost(key) {
		if at.owns == nil {
			at.owns = bitset.New(c.Layout.HostMarks)
		}
		at.owns.Add(mark)
		return
	}
	c.ownMark(at, mark)
}

// ownMark puts a mark on the machine's domain.
func (c *InterPod) ownMark(at *NodeCounts, mark int) {
	m := &c.Layout.Marks[mark]
	switch d := c.List[at.place][m.Key]; {
	case d >= 0:
		m.At.Add(int(d))
	case d == topology.Open: // the machine may turn out to be in any of them
		m.At.Or(bitset.Full(c.Layout.Domains[m.Key]))
	}
}

func (c *InterPod) reject(at *NodeCounts, mark int) {
	if at.rejects == nil {
		at.rejects = bitset.New(c.Layout.HostMarks)
	}
	at.rejects.Add(mark)
}

func (c *InterPod) HoldPorts(at *NodeCounts, ports []kube.HostPort) {
	for _, held := range ports {
		c.Colliding(held, func(i int) { c.reject(at, c.PortMark(i)) })
	}
}

func (c *InterPod) holdDisks(at *NodeCounts, disks []volume.Disk) {
	for _, held := range disks {
		i, _ := slices.BinarySearchFunc(c.Disks, held.ID, func(d volume.Disk, id string) int { return strings.Compare(d.ID, id) })
		for ; i < len(c.Disks) && c.Disks[i].ID == held.ID; i++ {
			if held.Conflicts(c.Disks[i]) {
				c.reject(at, c.DiskMark(i))
			}
		}
	}
}

// tallied returns the list after it has added n to the count of the group or set `of`. If the list lacks this entry, it appends one.
func tallied(list []packing.Tally, of, n int) []packing.Tally {
	for i := range list {
		if list[i].Of == of {
			list[i].Count += n
			return list
		}
	}
	return append(list, packing.Tally{Of: of, Count: n})
}

// Node returns the machine as a node of the packing problem.
func (at *NodeCounts) Node(free capacity.Vector) packing.Node {
	for _, list := range [][]packing.Tally{at.groups, at.sets, at.doubtful} {
		slices.SortFunc(list, func(a, b packing.Tally) int { return cmp.Compare(a.Of, b.Of) })
	}
	return packing.Node{Free: free, Place: at.place, Owns: at.owns, Rejects: at.rejects, Groups: at.groups, Sets: at.sets, Doubtful: at.doubtful, Ending: at.ending}
}
