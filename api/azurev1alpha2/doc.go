// Package azurev1alpha2 makes the version v1alpha2 of the definition of AKSNodeClass: the same fields under an older name, for
// manifests that still say it. It has no Go types of its own; objects are read as those of package azurev1beta1.
//
// +groupName=karpenter.azure.com
// +versionName=v1alpha2
package azurev1alpha2
