// Package azurev1beta1 holds the kind AKSNodeClass of group karpenter.azure.com, which describes virtual machines of Azure, in clusters of AKS and
// in any other. It has the defaults and rules that the API server checks, the drift hash, and the hash of fields that are changed in place. The
// provider finds the objects to which a class refers, and starts machines.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.azure.com
// +versionName=v1beta1
package azurev1beta1
