package kube

import (
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/requirement"
)

// MustRunOnDemandMark, as an annotation of copies that plans are made with, marks pods that have to run on demand although they do not
// ask for it. The API server takes no such key: nobody else can write it.
const MustRunOnDemandMark = v1.OnDemandShareAnnotationKey + "/counted"

// OnDemand is what pods ask of nodes that have to run on demand.
var OnDemand = requirement.Expect(v1.CapacityTypeLabelKey, requirement.In, []string{v1.CapacityTypeOnDemand, v1.CapacityTypeReserved})

// MustRunOnDemand reports whether the pod has to run on demand for its owner to have its share there. kube-scheduler does not know that.
func MustRunOnDemand(pod *corev1.Pod) bool { return pod.Annotations[MustRunOnDemandMark] != "" }
