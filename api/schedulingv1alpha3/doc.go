// Package schedulingv1alpha3 holds the kind PodGroup of Kubernetes' group scheduling.k8s.io, as far as a node autoscaler reads it: pods
// that start together. It is Kubernetes' kind, and Kubernetes defines it; the version of k8s.io/api that this program is built with
// does not have it yet. Objects of v1alpha2 are read as these.
//
// +kubebuilder:object:generate=true
// +kubebuilder:skip
package schedulingv1alpha3
