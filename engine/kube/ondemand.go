package kube

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/requirement"
)

// MustRunOnDemandMark, an annotation on copies for plans, marks pods that must run on demand although they do not require it. The API server
// rejects this key, so no user can set it.
const MustRunOnDemandMark = v1.OnDemandShareAnnotationKey + "/counted"

// SpotLabels are the labels of spot nodes in clouds without Karpenter.
var SpotLabels = map[string]string{
	"eks.amazonaws.com/capacityType":        "SPOT",
	"cloud.google.com/gke-spot":             "true",
	"cloud.google.com/gke-preemptible":      "true",
	"kubernetes.azure.com/scalesetpriority": "spot",
	"node.kubernetes.io/lifecycle":          "spot",
}

// InterruptibleReservation is the label, with value "true", of machines in capacity reservations that their owner may take back. They are
// reserved, but can be interrupted like spot machines.
const InterruptibleReservation = "karpenter.k8s.aws/capacity-reservation-interruptible"

// OnDemand holds the node constraints of pods that must run on demand: the node has no label of machines that can be interrupted like spot
// machines. A missing capacity type passes, because nodes outside pools have none.
var OnDemand = onDemand()

func onDemand() []requirement.Expression {
	out := []requirement.Expression{requirement.Expect(v1.CapacityTypeLabelKey, requirement.NotIn, []string{v1.CapacityTypeSpot})}
	out = append(out, requirement.Expect(InterruptibleReservation, requirement.NotIn, []string{"true"}))
	for _, key := range slices.Sorted(maps.Keys(SpotLabels)) {
		out = append(out, requirement.Expect(key, requirement.NotIn, []string{SpotLabels[key]}))
	}
	return out
}

// MustRunOnDemand reports whether the pod must run on demand for its owner's share on demand. kube-scheduler does not have this rule.
func MustRunOnDemand(pod *corev1.Pod) bool { return pod.Annotations[MustRunOnDemandMark] != "" }
