package volume

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// AvailableVolumes are the free volumes of a class, some of which several hosts can reach. Every claim takes one of them, unless the
// class can make a volume there; which one it takes is a matching. Where each volume is on one host they are local pools.
type AvailableVolumes struct {
	Class   string
	Volumes []string                     // by name
	places  [][][]requirement.Expression // of each volume; none mean anywhere
	made    [][]requirement.Expression   // where the class makes volumes
	Makes   bool
}

// SupplyTake is what a claim takes: one of the volumes that suit.
type SupplyTake struct {
	From  *AvailableVolumes
	Suits bitset.Set
	Joint ClaimID // of several waiting pods; empty for a claim of one pod
}

// indexAvailable finds the classes whose claims compete for free volumes.
func (v *Volumes) indexAvailable() {
	for name, free := range v.available {
		class := v.classes[name]
		if class == nil || class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
			continue
		}
		s := &AvailableVolumes{Class: name, Makes: !makesNone(class)}
		if s.Makes {
			places, ok := v.classPlaces(class)
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
				s.Volumes, s.places = append(s.Volumes, volume.Name), append(s.places, places)
			}
		}
		v.availableOf[name] = s
	}
}

// take is what a claim takes that these volumes suit; nil if it takes nothing.
func (s *AvailableVolumes) take(suiting []FreeVolume) *SupplyTake {
	if s == nil || len(suiting) == 0 {
		return nil
	}
	out := &SupplyTake{From: s, Suits: bitset.New(len(s.Volumes))}
	for _, volume := range suiting {
		if i, found := slices.BinarySearch(s.Volumes, volume.Name); found {
			out.Suits.Add(i)
		}
	}
	return out
}

// take notes what the claim takes; of a claim that other waiting pods use too all of them take it once.
func (p *PodVolumes) take(id ClaimID, facts *claimFacts, joint bool) {
	if facts.take == nil {
		return
	}
	mine := *facts.take
	if joint {
		mine.Joint = id
	}
	p.Takes = append(p.Takes, &mine)
}

func (t *SupplyTake) text() string {
	return fmt.Sprintf("%q %x %q", t.From.Class, t.Suits, t.Joint.String())
}

// Keys lists the labels that say what can be had on a node.
func (s *AvailableVolumes) Keys() []string {
	return labelsOf(slices.Concat(slices.Concat(s.places...), s.made))
}

// At is what can be had on a node with these labels: the volumes, or any number of new ones. It answers open if that is not
// known, because a label is not.
func (s *AvailableVolumes) At(label func(key string) (string, bool)) (things bitset.Set, endless, open bool) {
	meets := func(places [][]requirement.Expression) bool {
		return len(places) == 0 || slices.ContainsFunc(places, func(term []requirement.Expression) bool {
			return !slices.ContainsFunc(term, func(e requirement.Expression) bool {
				value, ok := label(e.Key)
				open = open || !ok && value == kube.OpenValue
				return !e.Admits(value, ok)
			})
		})
	}
	things = bitset.New(len(s.Volumes))
	for i := range s.places {
		if meets(s.places[i]) {
			things.Add(i)
		}
	}
	return things, s.Makes && len(s.made) > 0 && meets(s.made), open
}
