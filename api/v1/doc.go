// Package v1 holds the kinds NodePool and NodeClaim of group karpenter.sh,
// with the labels, annotations, taints and conditions that belong to them.
// It validates, hashes and keeps conditions consistent; it decides nothing
// about machines, which is left to package engine.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1
