//go:build crdschema

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// This file is read only while the CRDs are generated. It gives types of their
// own to values that Go keeps plain (see plain.go), because markers can only be
// attached to a type or to a struct field.

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type LabelValue string

// NodeClaimCondition is one observation about a machine. Reason and message may
// be missing, because objects written by older versions have none.
type NodeClaimCondition struct {
	// Type says what is observed.
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	// +kubebuilder:validation:MaxLength=316
	// +required
	Type string `json:"type"`

	// Status is True, False or Unknown.
	// +kubebuilder:validation:Enum="True";"False";Unknown
	// +required
	Status metav1.ConditionStatus `json:"status"`

	// ObservedGeneration is the generation of the object that was looked at.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// LastTransitionTime is when Status last changed.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`

	// Reason is one word that programs can compare.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$`
	// +optional
	Reason string `json:"reason"`

	// Message explains the status to a person.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Message string `json:"message"`
}
