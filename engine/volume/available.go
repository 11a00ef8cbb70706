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

// AvailableVolumes are the free volumes of a class if several hosts can reach some of them. Each claim takes one of them, unless the class can
// make a volume on the node; the assignment is a matching. If each volume is on one host, they are local pools instead.
type AvailableVolumes struct {
	Class   string
	Volumes []string                     // by name
	places  [][][]requirement.Expression // of each volume; none means anywhere
	made    [][]requirement.Expression   // where the class makes volumes
	Makes   bool
}

// SupplyTake is a claim's need for one of the suitable volumes.
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
				continue // the class can always make another volume
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

// take returns the claim's need for one of the suitable volumes. It returns nil if the claim has none.
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

// take counts the volume that the claim needs. If joint is true, waiting pods share the claim, and it counts once for all of them.
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

// Keys lists the labels that determine the volumes available on a node.
func (s *AvailableVolumes) Keys() []string {
	return labelsOf(slices.Concat(slices.Concat(s.places...), s.made))
}

// At returns the volumes available on a node with these labels: existing ones, and any number of new ones if endless. open means that this is
// not known, because a label is not.
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
