package engine

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/topology"
)

// soleVolume is a free volume that is the only one a claim can be bound to: of several claims that wait for it, one gets
// it, and the pods of the others can run nowhere.
type soleVolume struct {
	volume string
	claim  claimID
}

func compareSoles(a, b soleVolume) int {
	return cmp.Or(cmp.Compare(a.volume, b.volume), cmp.Compare(a.claim.String(), b.claim.String()))
}

// soleOf is the volume of the class that alone can be bound to the claim, empty if there are others.
func soleOf(suiting []*corev1.PersistentVolume) string {
	if len(suiting) != 1 || suiting[0].Spec.ClaimRef != nil {
		return ""
	}
	return suiting[0].Name
}

// compete notes which volume the claim waits for. It answers false if another claim of the pod waits for the same.
func (p *podVolumes) compete(id claimID, facts *claimFacts) bool {
	mine := soleVolume{facts.sole, id}
	if facts.sole == "" || slices.Contains(p.Soles, mine) {
		return true
	}
	if slices.ContainsFunc(p.Soles, func(s soleVolume) bool { return s.volume == mine.volume }) {
		return false
	}
	p.Soles = append(p.Soles, mine)
	return true
}

func noVolumeFree(class string) string {
	return "its storage class " + class + " makes no volumes, and none that suits is free"
}

// soleMarks are the mark of the claim that waits for a volume, and those of the other claims that wait for it.
func (c *crowd) soleMarks(s soleVolume) (mine int, others []int) {
	for i, other := range c.soles {
		mark := c.onceMark(0) - len(c.soles) + i
		switch {
		case other == s:
			mine = mark
		case other.volume == s.volume:
			others = append(others, mark)
		}
	}
	return mine, others
}

// volumeTaken names the claim of the class whose volume the plan has given to another claim.
func (p *problem) volumeTaken(c *podClass, w *topology.World) Reason {
	for _, s := range c.volumes.Soles {
		_, others := p.crowd.soleMarks(s)
		for _, place := range p.crowd.list {
			if _, ok := w.Allows(&topology.Rules{Shuns: others}, place); !ok {
				return Reason{Code: VolumeNotReady, Key: s.claim.String(), Have: noVolumeFree(volumeClass(p.wishes.volumes.persistent[s.volume]))}
			}
		}
	}
	return Reason{}
}
