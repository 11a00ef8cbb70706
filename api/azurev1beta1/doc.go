// Package azurev1beta1 holds the kind AKSNodeClass of group karpenter.azure.com: how virtual machines of Azure are made, in
// clusters of AKS and in any other. It carries the defaults and rules that the API server checks, the drift hash and that of
// what is changed in place. Finding what a class refers to, and starting machines, is left to the provider.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.azure.com
// +versionName=v1beta1
package azurev1beta1
