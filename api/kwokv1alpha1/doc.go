// Package kwokv1alpha1 holds the kind KWOKNodeClass of group karpenter.kwok.sh: the node class of simulated machines. Package provider/kwok makes
// these machines.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.kwok.sh
// +versionName=v1alpha1
package kwokv1alpha1
