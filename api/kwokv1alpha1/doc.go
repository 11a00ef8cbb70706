// Package kwokv1alpha1 holds the kind KWOKNodeClass of group karpenter.kwok.sh:
// the node class of simulated machines. Making those machines is left to
// package provider/kwok.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.kwok.sh
// +versionName=v1alpha1
package kwokv1alpha1
