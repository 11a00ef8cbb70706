// Package awsv1 holds the kind EC2NodeClass of group karpenter.k8s.aws: how machines of EC2 are made. It carries the
// defaults and rules that the API server checks, those that only a controller can check, and the drift hash. Finding what
// a class refers to, and starting machines, is left to package provider/aws.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.k8s.aws
// +versionName=v1
package awsv1
