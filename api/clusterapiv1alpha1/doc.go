// Package clusterapiv1alpha1 holds the kind ClusterAPINodeClass of group karpenter.cluster.x-k8s.io: which
// MachineDeployments of Cluster API machines are taken from. Scaling them is left to package provider/clusterapi.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.cluster.x-k8s.io
// +versionName=v1alpha1
package clusterapiv1alpha1
