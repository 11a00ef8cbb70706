// Package autoscalingv1 holds the kind ProvisioningRequest of group autoscaling.x-k8s.io. Kueue and other queues create such requests to ask for
// room for all pods of a job at once. The definition comes with the queue or with Cluster Autoscaler, not with this program. Version v1beta1 has the
// same fields.
//
// +kubebuilder:object:generate=true
// +kubebuilder:skip
package autoscalingv1
