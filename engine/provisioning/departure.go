package provisioning

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/packing"
)

// PlacedOnMachines solves the problem without new machines and says which pods find a place.
func (p *Problem) PlacedOnMachines() map[*corev1.Pod]bool {
	existing := *p.Packing
	existing.Pools = nil
	placed := map[*corev1.Pod]bool{}
	for _, shares := range packing.Solve(&existing).OnNodes {
		for _, share := range shares {
			for _, n := range share.Pods {
				placed[p.Classes[share.Class].Pods[n]] = true
			}
		}
	}
	return placed
}

// WithDeleted is the snapshot as if somebody had deleted these claims just now.
func WithDeleted(s *engine.Snapshot, claims map[*v1.NodeClaim]bool) *engine.Snapshot {
	next := *s
	next.NodeClaims = slices.Clone(s.NodeClaims)
	for i, claim := range next.NodeClaims {
		if claims[claim] && claim.DeletionTimestamp == nil {
			claim = claim.DeepCopy()
			claim.DeletionTimestamp = &metav1.Time{Time: s.Now}
			next.NodeClaims[i] = claim
		}
	}
	return &next
}
