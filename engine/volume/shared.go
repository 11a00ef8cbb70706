package volume

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// SharedClaim is a claim without a volume that several waiting pods use: where the first of them runs its volume is made,
// and the others have to follow it there.
type SharedClaim struct {
	ID ClaimID
	// Reach lists the labels in which the others' nodes have to be like the first one's.
	Reach []string
}

// decide notes that the pod is one of several that have a claim's volume made.
func (v *Volumes) decide(out *PodVolumes, id ClaimID, facts *claimFacts) {
	known := slices.ContainsFunc(out.Undecided, func(s SharedClaim) bool { return s.ID == id })
	if len(facts.reach) > 0 && v.waiting[id] > 1 && !known {
		out.Undecided = append(out.Undecided, SharedClaim{id, facts.reach})
	}
}

// Reach lists the labels by which a new volume of the claim will say where it can be reached: those by which its driver tells the
// nodes apart that it runs on. As long as it runs nowhere, the zone is assumed.
func (r *Reader) Reach(c *Claim) []string {
	if r.topologies == nil {
		r.topologies = DriversSeen(r.snapshot)
	}
	keys, known := r.topologies[provisionerDriver(c.class.Provisioner)]
	if !known {
		return []string{corev1.LabelTopologyZone}
	}
	var out []string
	for _, key := range keys {
		if source := repeats(r.snapshot, key); source != "" {
			key = source
		}
		if !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// labelsOf lists the labels that the places mention.
func labelsOf(places [][]requirement.Expression) []string {
	var out []string
	for _, place := range places {
		for _, e := range place {
			if e.Key != kube.NodeNameKey && !slices.Contains(out, e.Key) {
				out = append(out, e.Key)
			}
		}
	}
	slices.Sort(out)
	return out
}
