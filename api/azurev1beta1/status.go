package azurev1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AKSNodeClassStatus is what was found for a class.
type AKSNodeClassStatus struct {
	// Images that machines are started from. The first whose requirements an instance type meets is the one that it gets.
	// +optional
	Images []NodeImage `json:"images,omitempty"`

	// KubernetesVersion of the machines.
	// +optional
	KubernetesVersion *string `json:"kubernetesVersion,omitempty"`

	// LocalDNSState says whether machines run a DNS cache of their own: Enabled or Disabled.
	// +kubebuilder:validation:Enum={Enabled,Disabled}
	// +optional
	LocalDNSState *string `json:"localDNSState,omitempty"`

	// Conditions say whether machines can be made, and what is missing.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// A NodeImage is an image that machines are started from.
type NodeImage struct {
	// ID of the image.
	// +required
	ID string `json:"id"`
	// Requirements that an instance type must meet to be started from the image.
	// +required
	Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
}

// Conditions of an AKSNodeClass. Ready follows from those of DependentConditions.
const (
	ConditionKubernetesVersionReady = "KubernetesVersionReady"
	ConditionImagesReady            = "ImagesReady"
	ConditionSubnetsReady           = "SubnetsReady"
	ConditionValidationSucceeded    = "ValidationSucceeded"
	ConditionLocalDNSReady          = "LocalDNSReady"
)

// Reasons of conditions that are not True.
const (
	ReasonKubernetesUpgrade       = "KubernetesUpgrade"
	ReasonSIGRequiredForFIPS      = "SIGRequiredForFIPS"
	ReasonImagesNotFound          = "ImagesNotFound"
	ReasonSubnetIDInvalid         = "SubnetIDInvalid"
	ReasonSubnetNotFound          = "SubnetNotFound"
	ReasonSubnetUnknownError      = "SubnetUnknownError"
	ReasonDiskEncryptionSetRights = "DiskEncryptionSetRBACMissing"
	// Ours.
	ReasonResolutionFailed = "ResolutionFailed" // what was looked for is not known: the message says why
	ReasonValidationFailed = "ValidationFailed"
	ReasonSubnetFull       = "SubnetFull"
)

// GetConditions are the conditions of the class.
func (c *AKSNodeClass) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the class.
func (c *AKSNodeClass) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }

// DependentConditions must all be True for the class to be Ready.
func (c *AKSNodeClass) DependentConditions() []string {
	return []string{
		ConditionKubernetesVersionReady, ConditionImagesReady, ConditionSubnetsReady, ConditionValidationSucceeded, ConditionLocalDNSReady,
	}
}
