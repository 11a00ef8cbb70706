package clusterapiv1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

// A ClusterAPINodeClass says from which MachineDeployments of Cluster API machines are taken.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterapinodeclasses,scope=Cluster,categories=karpenter,shortName={capinc,capincs}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".spec.clusterName",description="Name of the Cluster object"
// +kubebuilder:printcolumn:name="MachineDeployments",type="integer",JSONPath=".status.machineDeployments",description="How many MachineDeployments machines can be made from"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether machines can be made from it"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type ClusterAPINodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which MachineDeployments, and what is known of their machines.
	// +optional
	Spec ClusterAPINodeClassSpec `json:"spec,omitempty"`

	// Status is what was found in the management cluster.
	// +optional
	Status ClusterAPINodeClassStatus `json:"status,omitempty"`
}

// ClusterAPINodeClassList is a list of ClusterAPINodeClasses.
// +kubebuilder:object:root=true
type ClusterAPINodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterAPINodeClass `json:"items"`
}

// ClusterAPINodeClassSpec says which MachineDeployments, and what is known of their machines.
type ClusterAPINodeClassSpec struct {
	// ScalableResourceSelector selects MachineDeployments by their labels, among those that have the label
	// node.cluster.x-k8s.io/karpenter-member. Without it, all of these are used.
	// +optional
	ScalableResourceSelector *metav1.LabelSelector `json:"scalableResourceSelector,omitempty"`

	// ClusterName is the name of the Cluster object whose nodes join this cluster. It must be given where the management
	// cluster has several.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// Namespaces of the MachineDeployments; without them, all.
	// +kubebuilder:validation:MaxItems=30
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`

	// Prices of instance types. They come after the annotation cluster.x-k8s.io/machine-current-price of a MachineDeployment,
	// and before built-in prices. What has no price at all is estimated from its cores and memory.
	// +kubebuilder:validation:MaxItems=500
	// +listType=map
	// +listMapKey=instanceType
	// +listMapKey=capacityType
	// +optional
	Prices []Price `json:"prices,omitempty"`

	// DriftPolicy says what happens to machines whose template has changed: Replace replaces those whose MachineDeployment has
	// the strategy OnDelete, DeferToClusterAPI and Ignore leave all to Cluster API and to whoever deletes Machines; with
	// DeferToClusterAPI they are said to have drifted, whatever the strategy.
	// +kubebuilder:validation:Enum={Replace,DeferToClusterAPI,Ignore}
	// +kubebuilder:default=Replace
	// +optional
	DriftPolicy string `json:"driftPolicy,omitempty"`

	// Overhead is what nodes keep back from pods, where no node has shown that yet. Without it, the defaults of the kubelet.
	// +optional
	Overhead *v1.Overhead `json:"overhead,omitempty"`
}

// A Price of an instance type.
type Price struct {
	// InstanceType is the value of label node.kubernetes.io/instance-type.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	InstanceType string `json:"instanceType"`
	// CapacityType that the price is for.
	// +kubebuilder:validation:Enum={on-demand,spot}
	// +kubebuilder:default=on-demand
	// +optional
	CapacityType string `json:"capacityType,omitempty"`
	// Price of a machine in USD per hour, more than 0.
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?$') && double(self) > 0.0",message="price must be a number above 0, such as 0.35"
	// +required
	Price string `json:"price"`
}

// ClusterAPINodeClassStatus is what was found in the management cluster.
type ClusterAPINodeClassStatus struct {
	// MachineDeployments is how many MachineDeployments machines can be made from.
	// +optional
	MachineDeployments int32 `json:"machineDeployments,omitempty"`

	// Conditions say whether machines can be made, and what is missing.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GetConditions are the conditions of the node class.
func (c *ClusterAPINodeClass) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the node class.
func (c *ClusterAPINodeClass) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// DependentConditions are those that Ready sums up.
func (c *ClusterAPINodeClass) DependentConditions() []string {
	return []string{ConditionManagementClusterReady, ConditionMachineDeploymentsReady}
}
