// Package v1alpha1 holds the kind NodeOverlay of group karpenter.sh, which changes prices and resources of instance types. Package engine/overlay
// applies overlays to catalogs.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1alpha1
