package volume

import (
	"cmp"
	"slices"
)

// SingleVolume is the only free volume that a claim can be bound to: if several claims wait for it, one gets it, and the pods of the others
// cannot run.
type SingleVolume struct {
	Volume string
	Claim  ClaimID
}

func CompareSingles(a, b SingleVolume) int {
	return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Claim.String(), b.Claim.String()))
}

// singleOf returns the only suiting volume. It returns "" if there are others.
func singleOf(suiting []FreeVolume) string {
	if len(suiting) != 1 || suiting[0].Spec.ClaimRef != nil {
		return ""
	}
	return suiting[0].Name
}

// compete records the single volume of the claim. It returns false if another claim of the pod waits for the same volume.
func (p *PodVolumes) compete(id ClaimID, facts *claimFacts) bool {
	mine := SingleVolume{facts.sole, id}
	if facts.sole == "" || slices.Contains(p.Singles, mine) {
		return true
	}
	if slices.ContainsFunc(p.Singles, func(s SingleVolume) bool { return s.Volume == mine.Volume }) {
		return false
	}
	p.Singles = append(p.Singles, mine)
	return true
}

func NoVolumeFree(class string) string {
	return "its storage class " + class + " makes no volumes, and none that suits is free"
}
