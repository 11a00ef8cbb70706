// Package autoscalingv1beta1 holds the kind CapacityBuffer of group
// autoscaling.x-k8s.io: spare room kept for pods that do not exist yet. How much
// room that is, and where, is decided in package engine.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.x-k8s.io
// +versionName=v1beta1
package autoscalingv1beta1
