// Package autoscalingv1 holds the kind ProvisioningRequest of group autoscaling.x-k8s.io, which Kueue and others make to ask for room for
// all pods of a job at once. Its definition comes with them or with Cluster Autoscaler, not with this program. Version v1beta1 has the
// same fields.
//
// +kubebuilder:object:generate=true
// +kubebuilder:skip
package autoscalingv1
