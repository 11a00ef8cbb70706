package constraints

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/topology"
)

// This file is about DaemonSets' pods that do not run yet, and their effect on pending pods. A new machine gets these pods before any other pod.

// DaemonSet is a DaemonSet within one compilation: the resources of its pod, and the rules between it and other pods.
type DaemonSet struct {
	inventory.Daemon
	Info *inventory.PodInfo
	// Resident is true if the DaemonSet's pod matters to a pending pod. Number is the pod's index in Layout.Residents.
	Resident bool
	Number   int
	Apart    *AntiAffinity // nil for none
	Near     []kube.AffinityTerm
	// Leaders are the indexes of the DaemonSets whose pods meet the affinity of this DaemonSet's pod, which needs one of them on its machine. Rivals
	// are the indexes of the DaemonSets whose pods cannot share its machine.
	Leaders, Rivals []int
	// Doubtful is true if more than the machine and the DaemonSets there decide whether the DaemonSet's pod runs on a machine.
	Doubtful bool
}

func DaemonSets(burdens []inventory.Daemon) []DaemonSet {
	out := make([]DaemonSet, len(burdens))
	for i, d := range burdens {
		out[i].Daemon = d
	}
	return out
}

// addDaemonSet makes the DaemonSet's pod a resident of new machines, if it matters to a pending pod.
func (c *InterPod) addDaemonSet(d *DaemonSet, i int) {
	r := topology.Resident{}
	matched := d.Info.Labels.Match(c.ID, c.Index)
	for g := range c.Groups {
		if s := c.Groups[g].Selector; slices.Contains(matched, s) && !c.Selectors[s].Everything() {
			r.Groups = append(r.Groups, g)
		}
	}
	for s := range c.Sets {
		if c.InSet(s, matched) {
			r.Sets = append(r.Sets, s)
		}
	}
	for k := range c.Terms {
		t := &c.Terms[k]
		if slices.Contains(matched, t.Selector) {
			c.residentOwns(&r, t.Selected, t.Key)
		}
	}
	if d.Apart != nil {
		for _, t := range d.Apart.Required {
			c.residentOwns(&r, c.Terms[c.Term[t]].Owned, t.Key)
		}
		for _, t := range d.Apart.Preferred {
			if k, ok := c.Term[t.AffinityTerm]; ok {
				c.residentOwns(&r, c.Terms[k].Soft, t.Key)
			}
		}
	}
	if len(r.Groups)+len(r.Sets)+len(r.Owns)+len(r.HostOwns) == 0 {
		return
	}
	r.Key = c.Keys.Index("resident " + strconv.Itoa(i))
	d.Resident, d.Number = true, len(c.Layout.Residents)
	c.Layout.Residents = append(c.Layout.Residents, r)
}

func (c *InterPod) residentOwns(r *topology.Resident, mark int, key string) {
	switch {
	case mark < 0:
	case kube.IsHost(key):
		if r.HostOwns == nil {
			r.HostOwns = bitset.New(c.Layout.HostMarks)
		}
		r.HostOwns.Add(mark)
	case !slices.Contains(r.Owns, mark):
		r.Owns = append(r.Owns, mark)
	}
}

// Excludes reports whether the DaemonSet's pod keeps the other DaemonSet's pod off its machine.
func (d *DaemonSet) Excludes(i *InterPod, other *DaemonSet) bool {
	return d.Apart != nil && slices.ContainsFunc(d.Apart.Required, func(t kube.AffinityTerm) bool { return other.IsSelected(i, t) })
}

// Follows reports whether the other DaemonSet's pod, if it is on the same machine, meets all affinity of the DaemonSet's pod.
func (d *DaemonSet) Follows(i *InterPod, other *DaemonSet) bool {
	return !slices.ContainsFunc(d.Near, func(t kube.AffinityTerm) bool { return !kube.IsHost(t.Key) || !other.IsSelected(i, t) })
}

func (d *DaemonSet) IsSelected(i *InterPod, t kube.AffinityTerm) bool {
	return slices.Contains(d.Info.Labels.Match(i.ID, i.Index), i.Selector[t.Selector])
}

// Spreads reports whether a spread makes pods on other machines decide whether the DaemonSet's pod runs on a machine.
func (d *DaemonSet) Spreads() bool {
	return slices.ContainsFunc(d.Pod.Spec.TopologySpreadConstraints, func(s corev1.TopologySpreadConstraint) bool {
		return s.WhenUnsatisfiable == corev1.DoNotSchedule && !kube.IsHost(s.TopologyKey)
	})
}

// KeptOut reports whether pods on other machines may keep the DaemonSet's pod out.
func (c *InterPod) KeptOut(d *DaemonSet) bool {
	if d.Apart != nil && slices.ContainsFunc(d.Apart.Required, func(t kube.AffinityTerm) bool { return !kube.IsHost(t.Key) }) {
		return true
	}
	matched := d.Info.Labels.Match(c.ID, c.Index)
	return slices.ContainsFunc(c.Terms, func(t antiAffinityTerm) bool {
		return t.running && !kube.IsHost(t.Key) && slices.Contains(matched, t.Selector)
	})
}

// Expects counts a resident that will run on the machine or, if certain is false, may run there.
func (c *InterPod) Expects(at *NodeCounts, r *topology.Resident, certain bool) {
	place := c.List[at.place]
	for _, i := range r.Groups {
		g := &c.Layout.Groups[i]
		if g.Filter >= 0 && place[g.Filter] != 1 {
			continue
		}
		switch {
		case g.Key == topology.Host:
			at.groups = tallied(at.groups, i, 1)
			if !certain {
				at.doubtful = tallied(at.doubtful, i, 1)
			}
		case place[g.Key] < 0:
		case certain:
			g.Count[place[g.Key]]++
		default:
			if g.May == nil {
				g.May = make([]int, len(g.Count))
			}
			g.May[place[g.Key]]++
		}
	}
	if certain {
		for _, s := range r.Sets {
			c.joinSet(at, s, place, 1)
		}
	}
	for _, m := range r.Owns {
		c.ownMark(at, m)
	}
	if len(r.HostOwns) > 0 {
		if at.owns == nil {
			at.owns = bitset.New(c.Layout.HostMarks)
		}
		at.owns.Or(r.HostOwns)
	}
}
