package autoscalingv1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The classes that are acted on. Others belong to other programs.
const (
	// CheckCapacity asks whether there is room now, and books it.
	CheckCapacity = "check-capacity.autoscaling.x-k8s.io"
	// BestEffortAtomic asks for machines for all pods or for none, and books their room.
	BestEffortAtomic = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
)

// What pods say of the request whose room they use.
const (
	ConsumeAnnotationKey      = "autoscaling.x-k8s.io/consume-provisioning-request"
	ClassAnnotationKey        = "autoscaling.x-k8s.io/provisioning-class-name"
	OlderConsumeAnnotationKey = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
)

// Types of conditions.
const (
	ConditionAccepted       = "Accepted"
	ConditionProvisioned    = "Provisioned"
	ConditionFailed         = "Failed"
	ConditionBookingExpired = "BookingExpired"
	// ConditionCapacityRevoked is followed where another program sets it: Kueue gives the workload up for good then.
	ConditionCapacityRevoked = "CapacityRevoked"
)

// Reasons of conditions.
const (
	Accepted             = "Accepted"
	CapacityIsFound      = "CapacityIsFound"       // Provisioned: nodes that were there have the room
	CapacityIsBought     = "CapacityIsProvisioned" // Provisioned: machines were started for it
	CapacityIsNotFound   = "CapacityIsNotFound"    // Provisioned is False, or Failed
	CapacityIsStarting   = "CapacityIsStarting"    // Provisioned is False: machines are on their way
	FailedToCreatePods   = "FailedToCreatePods"    // Failed: nobody knows what the pods look like
	InvalidRequest       = "InvalidRequest"        // Failed: the spec cannot be followed
	Expired              = "Expired"               // Failed: there was no room in the time that the request has
	ReservationExpired   = "CapacityReservationTimeExpired"
	CapacityBookingSpent = "CapacityBookingConsumed" // BookingExpired: the pods have nodes
	CapacityIsLost       = "CapacityIsLost"          // BookingExpired: nodes have gone, or other pods run there
)

// Keys of parameters that are understood.
const (
	NoRetry           = "noRetry"           // of CheckCapacity: "true" has the request fail where there is no room at once
	ValidUntilSeconds = "ValidUntilSeconds" // how long after its creation room is looked for; a week if it is not set
)

// BookedUntil is the key under which status.provisioningClassDetails says how long room is held at most.
const BookedUntil = "bookedUntil"

// ProvisioningRequest asks for room for pods that will be made once there is.
//
// +kubebuilder:object:root=true
type ProvisioningRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ProvisioningRequestSpec   `json:"spec"`
	Status            ProvisioningRequestStatus `json:"status,omitempty"`
}

// ProvisioningRequestSpec cannot be changed once it is made.
type ProvisioningRequestSpec struct {
	PodSets               []PodSet `json:"podSets"`
	ProvisioningClassName string   `json:"provisioningClassName"`
	// Parameters are for the class.
	Parameters map[string]string `json:"parameters,omitempty"`
}

// PodSet is Count pods of the PodTemplate, which is in the namespace of the request.
type PodSet struct {
	PodTemplateRef Reference `json:"podTemplateRef"`
	Count          int32     `json:"count"`
}

// Reference is the name of an object of the namespace.
type Reference struct {
	Name string `json:"name,omitempty"`
}

// ProvisioningRequestStatus is what has become of the request.
type ProvisioningRequestStatus struct {
	Conditions               []metav1.Condition `json:"conditions,omitempty"`
	ProvisioningClassDetails map[string]string  `json:"provisioningClassDetails,omitempty"`
}

// ProvisioningRequestList is a list of ProvisioningRequests.
//
// +kubebuilder:object:root=true
type ProvisioningRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProvisioningRequest `json:"items"`
}

// ProvisioningRequestV1Beta1 is the kind as version v1beta1 of the group serves it.
//
// +kubebuilder:object:root=true
type ProvisioningRequestV1Beta1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ProvisioningRequestSpec   `json:"spec"`
	Status            ProvisioningRequestStatus `json:"status,omitempty"`
}

// ProvisioningRequestV1Beta1List is a list of ProvisioningRequests of v1beta1.
//
// +kubebuilder:object:root=true
type ProvisioningRequestV1Beta1List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProvisioningRequestV1Beta1 `json:"items"`
}

// FromV1Beta1 converts a request of v1beta1.
func FromV1Beta1(o *ProvisioningRequestV1Beta1) *ProvisioningRequest {
	return &ProvisioningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: "ProvisioningRequest"},
		ObjectMeta: o.ObjectMeta, Spec: o.Spec, Status: o.Status,
	}
}

// ToV1Beta1 converts a request back.
func ToV1Beta1(o *ProvisioningRequest) *ProvisioningRequestV1Beta1 {
	return &ProvisioningRequestV1Beta1{ObjectMeta: o.ObjectMeta, Spec: o.Spec, Status: o.Status}
}
