package autoscalingv1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ActiveCapacity is the strategy that keeps machines running for a buffer. It is
// the only one that is acted on.
const ActiveCapacity = "buffer.x-k8s.io/active-capacity"

// Condition types of a CapacityBuffer.
const (
	ConditionReadyForProvisioning = "ReadyForProvisioning"
	ConditionProvisioning         = "Provisioning"
	ConditionLimitedByQuotas      = "LimitedByQuotas"
)

// Reasons of these conditions.
const (
	Resolved                = "Resolved"
	PodTemplateNotFound     = "PodTemplateNotFound"
	ScalableRefNotFound     = "ScalableRefNotFound"
	ResolutionFailed        = "ResolutionFailed"
	FitsExistingCapacity    = "FitsExistingCapacity"
	RequiresNewCapacity     = "RequiresNewCapacity"
	NotReadyForProvisioning = "NotReadyForProvisioning"
	BufferEmpty             = "BufferEmpty"
	ResourceQuotasAllocated = "ResourceQuotasAllocated"
	BufferLimitsReached     = "BufferLimitsReached" // another program has no such limits
)

// A CapacityBuffer keeps room for a number of pods that do not exist yet.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=capacitybuffers,scope=Namespaced,categories=autoscaling,shortName=cb
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Strategy",type="string",JSONPath=".spec.provisioningStrategy",description="How room is kept"
// +kubebuilder:printcolumn:name="PodTemplate",type="string",JSONPath=".spec.podTemplateRef.name",description="Shape of the pods"
// +kubebuilder:printcolumn:name="Replicas",type="integer",JSONPath=".status.replicas",description="Number of pods room is kept for"
// +kubebuilder:printcolumn:name="ConditionsType",type="string",JSONPath=".status.conditions[*].type",description="What is known about the buffer"
// +kubebuilder:printcolumn:name="ConditionsStatus",type="string",JSONPath=".status.conditions[*].status",description="Whether it is so"
// +kubebuilder:printcolumn:name="ConditionsReason",type="string",JSONPath=".status.conditions[*].reason",description="Why"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type CapacityBuffer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the room that is wanted.
	// +kubebuilder:validation:XValidation:rule="!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",message="podTemplateRef needs replicas or limits to say how much room to keep"
	// +kubebuilder:validation:XValidation:rule="!has(self.podTemplateRef) || !has(self.scalableRef)",message="podTemplateRef and scalableRef cannot both be set"
	// +required
	Spec CapacityBufferSpec `json:"spec"`

	// Status is the room that is kept.
	// +optional
	Status CapacityBufferStatus `json:"status,omitempty"`
}

// CapacityBufferList is a list of CapacityBuffers.
// +kubebuilder:object:root=true
type CapacityBufferList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CapacityBuffer `json:"items"`
}

// CapacityBufferSpec is the room that is wanted. The shape of one pod comes from
// a template or from a workload; the number of pods is the larger of Replicas and
// Percentage, bounded by Limits.
type CapacityBufferSpec struct {
	// ProvisioningStrategy says how room is kept.
	// +kubebuilder:default="buffer.x-k8s.io/active-capacity"
	// +optional
	ProvisioningStrategy *string `json:"provisioningStrategy,omitempty"`

	// PodTemplateRef names a PodTemplate of the same namespace.
	// +optional
	PodTemplateRef *LocalObjectRef `json:"podTemplateRef,omitempty"`

	// ScalableRef names a Deployment, StatefulSet or ReplicaSet of the same
	// namespace.
	// +optional
	ScalableRef *ScalableRef `json:"scalableRef,omitempty"`

	// Replicas is the number of pods.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Percentage is the number of pods as a share of the workload's replicas,
	// rounded up.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Percentage *int32 `json:"percentage,omitempty"`

	// Limits bound what the pods request together.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// LocalObjectRef names an object of the same namespace.
type LocalObjectRef struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
}

// ScalableRef names a workload of the same namespace.
type ScalableRef struct {
	// APIGroup of the workload; empty means apps.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`

	// Kind of the workload.
	// +kubebuilder:validation:MinLength=1
	// +required
	Kind string `json:"kind"`

	// Name of the workload.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
}

// CapacityBufferStatus is the room that is kept.
type CapacityBufferStatus struct {
	// PodTemplateRef is the template that was found.
	// +optional
	PodTemplateRef *LocalObjectRef `json:"podTemplateRef,omitempty"`

	// Replicas is the number of pods room is kept for.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// PodTemplateGeneration is the generation of the template that was found.
	// +optional
	PodTemplateGeneration *int64 `json:"podTemplateGeneration,omitempty"`

	// ProvisioningStrategy repeats the strategy that was followed.
	// +optional
	ProvisioningStrategy *string `json:"provisioningStrategy,omitempty"`

	// Conditions say whether the buffer is understood, and whether there is room.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
