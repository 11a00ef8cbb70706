package kube

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/requirement"
)

// MustRunOnDemandMark, as an annotation of copies that plans are made with, marks pods that have to run on demand although they do not
// ask for it. The API server takes no such key: nobody else can write it.
const MustRunOnDemandMark = v1.OnDemandShareAnnotationKey + "/counted"

// SpotLabels are the labels by which clouds without Karpenter say that a node is a spot machine.
var SpotLabels = map[string]string{
	"eks.amazonaws.com/capacityType":        "SPOT",
	"cloud.google.com/gke-spot":             "true",
	"cloud.google.com/gke-preemptible":      "true",
	"kubernetes.azure.com/scalesetpriority": "spot",
	"node.kubernetes.io/lifecycle":          "spot",
}

// InterruptibleReservation is the label of machines in capacity reservations that their owner may take back: value "true". They are reserved, and
// taken away like spot machines.
const InterruptibleReservation = "karpenter.k8s.aws/capacity-reservation-interruptible"

// OnDemand is what pods that have to run on demand ask of nodes: that nothing says they are taken away like spot machines. Nodes that nobody made for a
// pool have no capacity type.
var OnDemand = onDemand()

func onDemand() []requirement.Expression {
	out := []requirement.Expression{requirement.Expect(v1.CapacityTypeLabelKey, requirement.NotIn, []string{v1.CapacityTypeSpot})}
	out = append(out, requirement.Expect(InterruptibleReservation, requirement.NotIn, []string{"true"}))
	for _, key := range slices.Sorted(maps.Keys(SpotLabels)) {
		out = append(out, requirement.Expect(key, requirement.NotIn, []string{SpotLabels[key]}))
	}
	return out
}

// MustRunOnDemand reports whether the pod has to run on demand for its owner to have its share there. kube-scheduler does not know that.
func MustRunOnDemand(pod *corev1.Pod) bool { return pod.Annotations[MustRunOnDemandMark] != "" }
