// Package awsv1 holds the kind EC2NodeClass of group karpenter.k8s.aws, which describes machines of EC2. It has the defaults and rules that the API
// server checks, the rules that only a controller can check, and the drift hash. Package provider/aws finds the objects to which a class refers, and
// starts machines.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.k8s.aws
// +versionName=v1
package awsv1
