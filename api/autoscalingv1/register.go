package autoscalingv1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the kinds in this package. V1Beta1 is the older version of the group.
var (
	GroupVersion = schema.GroupVersion{Group: "autoscaling.x-k8s.io", Version: "v1"}
	V1Beta1      = schema.GroupVersion{Group: GroupVersion.Group, Version: "v1beta1"}
)

// AddToScheme registers the kinds of this package for a client.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ProvisioningRequest{}, &ProvisioningRequestList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	s.AddKnownTypeWithName(V1Beta1.WithKind("ProvisioningRequest"), &ProvisioningRequestV1Beta1{})
	s.AddKnownTypeWithName(V1Beta1.WithKind("ProvisioningRequestList"), &ProvisioningRequestV1Beta1List{})
	metav1.AddToGroupVersion(s, V1Beta1)
	return nil
}
