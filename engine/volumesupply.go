package engine

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/topology"
)

// A supply is the free volumes of a class, some of which several hosts can reach. Every claim takes one of them, unless the
// class can make a volume there; which one it takes is a matching. Where each volume is on one host they are stocks.
type supply struct {
	class   string
	volumes []string                     // by name
	places  [][][]requirement.Expression // of each volume; none mean anywhere
	made    [][]requirement.Expression   // where the class makes volumes
	makes   bool
}

// supplyTake is what a claim takes: one of the volumes that suit.
type supplyTake struct {
	from  *supply
	suits bitset.Set
	joint claimID // of several waiting pods; empty for a claim of one pod
}

// indexSupplies finds the classes whose claims compete for free volumes.
func (v *volumes) indexSupplies() {
	for name, free := range v.available {
		class := v.classes[name]
		if class == nil || class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
			continue
		}
		s := &supply{class: name, makes: !makesNone(class)}
		if s.makes {
			places, ok := classPlaces(class)
			if ok && len(places) == 0 {
				continue // there is always another one to be had
			}
			s.made = places
		} else if len(free) < 2 || !slices.ContainsFunc(free, func(p *corev1.PersistentVolume) bool { return hostOf(p) == "" }) {
			continue
		}
		free = slices.Clone(free)
		slices.SortFunc(free, func(a, b *corev1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
		for _, volume := range free {
			if places, ok := v.placesOf(volume, false); ok {
				s.volumes, s.places = append(s.volumes, volume.Name), append(s.places, places)
			}
		}
		v.supplies[name] = s
	}
}

// take is what a claim takes that these volumes suit; nil if it takes nothing.
func (s *supply) take(suiting []*corev1.PersistentVolume) *supplyTake {
	if s == nil || len(suiting) == 0 {
		return nil
	}
	out := &supplyTake{from: s, suits: bitset.New(len(s.volumes))}
	for _, volume := range suiting {
		if i, found := slices.BinarySearch(s.volumes, volume.Name); found {
			out.suits.Add(i)
		}
	}
	return out
}

// take notes what the claim takes; of a claim that other waiting pods use too all of them take it once.
func (p *podVolumes) take(id claimID, facts *claimFacts, joint bool) {
	if facts.take == nil {
		return
	}
	mine := *facts.take
	if joint {
		mine.joint = id
	}
	p.Takes = append(p.Takes, &mine)
}

func (t *supplyTake) text() string {
	return fmt.Sprintf("%q %x %q", t.from.class, t.suits, t.joint.String())
}

// keys lists the labels that say what can be had on a node.
func (s *supply) keys() []string { return labelsOf(slices.Concat(slices.Concat(s.places...), s.made)) }

// at is what can be had on a node with these labels: the volumes, or any number of new ones. It answers open if that is not
// known, because a label is not.
func (s *supply) at(label func(key string) (string, bool)) (things bitset.Set, endless, open bool) {
	meets := func(places [][]requirement.Expression) bool {
		return len(places) == 0 || slices.ContainsFunc(places, func(term []requirement.Expression) bool {
			return !slices.ContainsFunc(term, func(e requirement.Expression) bool {
				value, ok := label(e.Key)
				open = open || !ok && value == openValue
				return !e.Admits(value, ok)
			})
		})
	}
	things = bitset.New(len(s.volumes))
	for i := range s.places {
		if meets(s.places[i]) {
			things.Add(i)
		}
	}
	return things, s.makes && len(s.made) > 0 && meets(s.made), open
}

// supplyOf is the number of the supply in the layout; it has none before somebody takes from it.
func (c *crowd) supplyOf(s *supply) int {
	i := slices.Index(c.supplies, s)
	if i < 0 {
		i = len(c.supplies)
		c.supplies = append(c.supplies, s)
	}
	return i
}

// numberSupplies adds the supplies to the layout, and the labels that they depend on to the keys of places.
func (c *crowd) numberSupplies() {
	for i, s := range c.supplies {
		for _, key := range s.keys() {
			c.keys.Index("label " + key)
		}
		c.layout.Supplies = append(c.layout.Supplies, topology.Supply{Key: c.keys.Index(fmt.Sprintf("supply %d", i)), Things: len(s.volumes)})
	}
}

// supplyAt is the domain of a node with these labels for supply i: nodes where the same can be had are one domain.
func (c *crowd) supplyAt(i int, label func(key string) (string, bool)) int32 {
	things, endless, open := c.supplies[i].at(label)
	if open {
		return topology.Open
	}
	s := &c.layout.Supplies[i]
	d := c.domains[s.Key].Index(fmt.Sprintf("%x %t", things, endless))
	if d == len(s.Reach) {
		s.Reach = append(s.Reach, things)
		if endless {
			c.endless = append(c.endless, [2]int{i, d})
		}
	}
	return int32(d)
}

// settleSupplies notes in which domains volumes can be made.
func (c *crowd) settleSupplies() {
	for i := range c.layout.Supplies {
		s := &c.layout.Supplies[i]
		s.Endless = bitset.New(len(s.Reach))
		for _, e := range c.endless {
			if e[0] == i {
				s.Endless.Add(e[1])
			}
		}
	}
}

// takes is what the claims take, as a rule.
func (c *crowd) takes(list []*supplyTake) []topology.Take {
	var out []topology.Take
	for _, t := range list {
		take := topology.Take{Supply: c.supplyOf(t.from), Suits: t.suits}
		if t.joint != (claimID{}) {
			take.Joint = c.joint.Index(t.joint.String()) + 1
		}
		out = append(out, take)
	}
	return out
}

// supplyGone reports the class of which the plan has given away the last volumes that the pods could use.
func (p *problem) supplyGone(c *podClass, w *topology.World) Reason {
	if len(c.volumes.Takes) == 0 {
		return Reason{}
	}
	rules := &topology.Rules{Takes: p.crowd.takes(c.volumes.Takes)}
	for _, place := range p.crowd.list {
		if _, ok := w.Allows(rules, place); ok {
			return Reason{}
		}
	}
	from := c.volumes.Takes[0].from
	if from.makes {
		return Reason{Code: VolumeNotReady, Have: "all free volumes that suit are taken, and its storage class " + from.class + " makes new ones elsewhere only"}
	}
	return Reason{Code: VolumeNotReady, Have: noVolumeFree(from.class)}
}
