// Package v1alpha1 holds the kind NodeOverlay of group karpenter.sh, which
// corrects prices and resources of instance types. What an overlay does to a
// catalog is decided in package engine.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1alpha1
