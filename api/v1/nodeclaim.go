package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A NodeClaim is one machine: first the wish for it, then what came of it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodeclaims,scope=Cluster,categories=karpenter
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".metadata.labels.node\\.kubernetes\\.io/instance-type",description="Instance type of the machine"
// +kubebuilder:printcolumn:name="Capacity",type="string",JSONPath=".metadata.labels.karpenter\\.sh/capacity-type",description="How the machine is paid for"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".metadata.labels.topology\\.kubernetes\\.io/zone",description="Zone of the machine"
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=".status.nodeName",description="Node that the machine became"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether the machine is launched, registered and initialised"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="ImageID",type="string",JSONPath=".status.imageID",priority=1,description="Image the machine booted from"
// +kubebuilder:printcolumn:name="ID",type="string",JSONPath=".status.providerID",priority=1,description="Machine in the cloud"
// +kubebuilder:printcolumn:name="NodePool",type="string",JSONPath=".metadata.labels.karpenter\\.sh/nodepool",priority=1,description="Pool the machine belongs to"
// +kubebuilder:printcolumn:name="NodeClass",type="string",JSONPath=".spec.nodeClassRef.name",priority=1,description="Node class the machine is made from"
// +kubebuilder:printcolumn:name="Drifted",type="string",JSONPath=".status.conditions[?(@.type==\"Drifted\")].status",priority=1,description="Whether the machine differs from what its pool asks for now"
type NodeClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the machine that is wanted. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable"
	// +required
	Spec NodeClaimSpec `json:"spec"`

	// Status is what became of it.
	// +optional
	Status NodeClaimStatus `json:"status,omitempty"`
}

// NodeClaimList is a list of NodeClaims.
// +kubebuilder:object:root=true
type NodeClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeClaim `json:"items"`
}

// NodeClaimSpec is the machine that is wanted.
type NodeClaimSpec struct {
	// Taints are put on the node. Pods must tolerate them to run there.
	// +listType=atomic
	// +optional
	Taints []Taint `json:"taints,omitempty"`

	// StartupTaints are put on the node and taken off by somebody else once the
	// node is prepared. Pods need not tolerate them.
	// +listType=atomic
	// +optional
	StartupTaints []Taint `json:"startupTaints,omitempty"`

	// Requirements limit the labels of the machine, and with them its instance
	// type, zone and capacity type.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +required
	Requirements []Requirement `json:"requirements"`

	// Resources are what the machine is wanted for.
	// +optional
	Resources ResourceRequirements `json:"resources,omitempty"`

	// NodeClassRef names the node class the machine is made from.
	// +required
	NodeClassRef *NodeClassReference `json:"nodeClassRef"`

	// TerminationGracePeriod is how long draining may take from the moment the
	// claim is deleted. Without it, draining waits as long as pods need.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +optional
	TerminationGracePeriod *metav1.Duration `json:"terminationGracePeriod,omitempty"`

	// ExpireAfter is the age at which the machine is removed, or Never.
	// +kubebuilder:default="720h"
	// +optional
	ExpireAfter NillableDuration `json:"expireAfter"`
}

// ResourceRequirements are the resources a machine is wanted for.
type ResourceRequirements struct {
	// Requests are the sum of what the planned pods and the daemons ask for.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// NodeClaimStatus is what became of a NodeClaim.
type NodeClaimStatus struct {
	// NodeName is the node that the machine became.
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// ProviderID identifies the machine in its cloud and equals the node's.
	// +optional
	ProviderID string `json:"providerID,omitempty"`

	// ImageID is the image the machine booted from.
	// +optional
	ImageID string `json:"imageID,omitempty"`

	// Capacity is the estimated size of the machine.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// Allocatable is the estimated part of Capacity that pods can use.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`

	// Conditions say how far the machine has come, and what is wrong.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []NodeClaimCondition `json:"conditions,omitempty"`

	// LastPodEventTime is when a pod was last bound to the node, or left it.
	// Consolidation waits for this to be some time ago.
	// +optional
	LastPodEventTime metav1.Time `json:"lastPodEventTime,omitzero"`
}
