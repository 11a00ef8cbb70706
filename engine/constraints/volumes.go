package constraints

import (
	"fmt"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/topology"
	"tenon.sh/engine/volume"
)

// SingleMarks returns the mark of the claim that waits for a volume, and the marks of the other claims that wait for the same volume.
func (c *InterPod) SingleMarks(s volume.SingleVolume) (mine int, others []int) {
	for i, other := range c.soles {
		mark := c.OnceMark(0) - len(c.soles) + i
		switch {
		case other == s:
			mine = mark
		case other.Volume == s.Volume:
			others = append(others, mark)
		}
	}
	return mine, others
}

// availableOf returns the index of the available volumes in the layout, and adds the volumes if they are new.
func (c *InterPod) availableOf(s *volume.AvailableVolumes) int {
	i := slices.Index(c.supplies, s)
	if i < 0 {
		i = len(c.supplies)
		c.supplies = append(c.supplies, s)
	}
	return i
}

// numberAvailable adds the available volumes to the layout, and the labels that they depend on to the keys of places.
func (c *InterPod) numberAvailable() {
	for i, s := range c.supplies {
		for _, key := range s.Keys() {
			c.Keys.Index("label " + key)
		}
		c.Layout.Available = append(c.Layout.Available, topology.Available{Key: c.Keys.Index(fmt.Sprintf("supply %d", i)), Things: len(s.Volumes)})
	}
}

// availableAt returns the domain of a node with these labels for available volumes i: nodes that can use the same volumes are one domain.
func (c *InterPod) availableAt(i int, label func(key string) (string, bool)) int32 {
	things, endless, open := c.supplies[i].At(label)
	if open {
		return topology.Open
	}
	s := &c.Layout.Available[i]
	d := c.Domains[s.Key].Index(fmt.Sprintf("%x %t", things, endless))
	if d == len(s.Reach) {
		s.Reach = append(s.Reach, things)
		if endless {
			c.endless = append(c.endless, [2]int{i, d})
		}
	}
	return int32(d)
}

// closeAvailable notes in which domains new volumes can be created.
func (c *InterPod) closeAvailable() {
	for i := range c.Layout.Available {
		s := &c.Layout.Available[i]
		s.Endless = bitset.New(len(s.Reach))
		for _, e := range c.endless {
			if e[0] == i {
				s.Endless.Add(e[1])
			}
		}
	}
}

// Takes returns the requests of the claims for available volumes, for topology.Rules.
func (c *InterPod) Takes(list []*volume.SupplyTake) []topology.Take {
	var out []topology.Take
	for _, t := range list {
		take := topology.Take{Supply: c.availableOf(t.From), Suits: t.Suits}
		if t.Joint != (volume.ClaimID{}) {
			take.Joint = c.joint.Index(t.Joint.String()) + 1
		}
		out = append(out, take)
	}
	return out
}
