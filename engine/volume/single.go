package volume

import (
	"cmp"
	"slices"
)

// SingleVolume is a free volume that is the only one a claim can be bound to: of several claims that wait for it, one gets
// it, and the pods of the others can run nowhere.
type SingleVolume struct {
	Volume string
	Claim  ClaimID
}

func CompareSingles(a, b SingleVolume) int {
	return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Claim.String(), b.Claim.String()))
}

// singleOf is the volume of the class that alone can be bound to the claim, empty if there are others.
func singleOf(suiting []FreeVolume) string {
	if len(suiting) != 1 || suiting[0].Spec.ClaimRef != nil {
		return ""
	}
	return suiting[0].Name
}

// compete notes which volume the claim waits for. It answers false if another claim of the pod waits for the same.
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
