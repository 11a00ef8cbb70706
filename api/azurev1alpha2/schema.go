//go:build crdschema

package azurev1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/azurev1beta1"
)

// This file is read only while the CRDs are generated.

// An AKSNodeClass says how virtual machines of Azure are made: from which images, in which network, with which disks and rights.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="use v1beta1.AKSNodeClass instead"
// +kubebuilder:resource:path=aksnodeclasses,singular=aksnodeclass,scope=Cluster,categories={karpenter,nap},shortName={aksnc,aksncs}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether machines can be made from it"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="ImageFamily",type="string",JSONPath=".spec.imageFamily",priority=1,description="Which images machines are started from"
type AKSNodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is how machines are made.
	// +kubebuilder:default={}
	// +optional
	Spec azurev1beta1.AKSNodeClassSpec `json:"spec,omitempty"`

	// Status is what was found for it.
	// +optional
	Status azurev1beta1.AKSNodeClassStatus `json:"status,omitempty"`
}
