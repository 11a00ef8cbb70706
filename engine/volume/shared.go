package volume

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// SharedClaim is a claim without a volume that several waiting pods use: its volume is made where the first of them runs, and the others must
// run where they can reach it.
type SharedClaim struct {
	ID ClaimID
	// Reach lists the labels for which the others' nodes need the values of the first one's node.
	Reach []string
}

// decide records that the pod shares a claim whose volume has no place yet.
func (v *Volumes) decide(out *PodVolumes, id ClaimID, facts *claimFacts) {
	known := slices.ContainsFunc(out.Undecided, func(s SharedClaim) bool { return s.ID == id })
	if len(facts.reach) > 0 && v.waiting[id] > 1 && !known {
		out.Undecided = append(out.Undecided, SharedClaim{id, facts.reach})
	}
}

// Reach lists the labels of the place of the claim's new volume: the topology keys of its driver. If the driver runs on no node yet, the zone is
// assumed.
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
