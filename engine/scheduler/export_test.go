package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// PredictClaim returns the node that a replay makes of a claim without one.
func PredictClaim(s *engine.Snapshot, claim *v1.NodeClaim) *corev1.Node {
	node, _ := newPredictor(s, nil).claim(claim)
	return node
}
