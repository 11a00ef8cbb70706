package provisioning

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/packing"
)

// Placed solves the problem and returns the pods that find a place, on a machine that is there or on a new one.
func (p *Problem) Placed() map[*corev1.Pod]bool {
	placed := map[*corev1.Pod]bool{}
	take := func(shares []packing.Share) {
		for _, share := range shares {
			for _, n := range share.Pods {
				placed[p.Classes[share.Class].Pods[n]] = true
			}
		}
	}
	solution := packing.Solve(p.Packing)
	for _, shares := range solution.OnNodes {
		take(shares)
	}
	for i := range solution.New {
		take(solution.New[i].Pods)
	}
	return placed
}

// WithDeleted returns the snapshot as if these claims had just been deleted.
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
