package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

// A NodeOverlay corrects what is known about instance types: what they cost for
// this user, and which extra resources their nodes will have. It changes
// decisions only, never machines.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodeoverlays,scope=Cluster,categories=karpenter,shortName=overlays
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether the overlay is in force"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Weight",type="integer",JSONPath=".spec.weight",priority=1,description="Heavier overlays win"
type NodeOverlay struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the correction.
	// +kubebuilder:validation:XValidation:rule="!has(self.price) || !has(self.priceAdjustment)",message="price and priceAdjustment cannot both be set"
	// +required
	Spec NodeOverlaySpec `json:"spec"`

	// Status says whether the correction is in force.
	// +optional
	Status NodeOverlayStatus `json:"status,omitempty"`
}

// NodeOverlayList is a list of NodeOverlays.
// +kubebuilder:object:root=true
type NodeOverlayList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeOverlay `json:"items"`
}

// NodeOverlaySpec is a correction and the instance types it applies to.
type NodeOverlaySpec struct {
	// Requirements select instance types and offerings by their labels. An empty
	// list selects all.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +required
	Requirements []Requirement `json:"requirements"`

	// Price replaces the hourly price.
	// +kubebuilder:validation:Pattern=`^\d+(\.\d+)?$`
	// +optional
	Price *string `json:"price,omitempty"`

	// PriceAdjustment is added to the hourly price: an amount or a percentage,
	// always with a sign. The result is never below zero.
	// +kubebuilder:validation:Pattern=`^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$`
	// +optional
	PriceAdjustment *string `json:"priceAdjustment,omitempty"`

	// Capacity are extended resources that nodes will have although the cloud
	// does not say so.
	// +kubebuilder:validation:XValidation:rule="self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",message="cpu, memory, ephemeral-storage and pods cannot be corrected: only extended resources can be added"
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// Weight orders overlays: the heaviest that touches a price or resource wins.
	// Unset means 0.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Weight *int32 `json:"weight,omitempty"`
}

// A Requirement selects instance types and offerings by a label. Unlike a pool's
// it has no minValues.
//
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",message="operators In and NotIn need at least one value",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(self.values) && size(self.values) == 1 && int(self.values[0]) >= 0)",message="values must hold exactly one integer of 0 or more for the operators Gt, Lt, Gte and Lte",fieldPath=".values"
type Requirement struct {
	// Key is the label that is compared.
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +kubebuilder:validation:XValidation:rule="self in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !self.find('^([^/]+)').endsWith('karpenter.sh')",message="labels of domain karpenter.sh are reserved, except karpenter.sh/capacity-type and karpenter.sh/nodepool"
	// +kubebuilder:validation:XValidation:rule="self != 'kubernetes.io/hostname'",message="label kubernetes.io/hostname cannot be required: every machine gets its own"
	// +kubebuilder:validation:XValidation:rule="!self.find('^([^/]+)').endsWith('karpenter.k8s.aws') || self in ['karpenter.k8s.aws/ec2nodeclass', 'karpenter.k8s.aws/instance-encryption-in-transit-supported', 'karpenter.k8s.aws/nitro-sandbox', 'karpenter.k8s.aws/instance-category', 'karpenter.k8s.aws/instance-hypervisor', 'karpenter.k8s.aws/instance-family', 'karpenter.k8s.aws/instance-generation', 'karpenter.k8s.aws/instance-local-nvme', 'karpenter.k8s.aws/instance-size', 'karpenter.k8s.aws/instance-cpu', 'karpenter.k8s.aws/instance-cpu-manufacturer', 'karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz', 'karpenter.k8s.aws/instance-memory', 'karpenter.k8s.aws/instance-ebs-bandwidth', 'karpenter.k8s.aws/instance-network-bandwidth', 'karpenter.k8s.aws/instance-gpu-name', 'karpenter.k8s.aws/instance-gpu-manufacturer', 'karpenter.k8s.aws/instance-gpu-count', 'karpenter.k8s.aws/instance-gpu-memory', 'karpenter.k8s.aws/instance-accelerator-name', 'karpenter.k8s.aws/instance-accelerator-manufacturer', 'karpenter.k8s.aws/instance-accelerator-count', 'karpenter.k8s.aws/instance-capability-flex']",message="label domain \"karpenter.k8s.aws\" is restricted: this key is none of the labels AWS instance types have"
	// +kubebuilder:validation:XValidation:rule="!self.find('^([^/]+)').endsWith('karpenter.azure.com') || self in ['karpenter.azure.com/aksnodeclass', 'karpenter.azure.com/sku-name', 'karpenter.azure.com/sku-family', 'karpenter.azure.com/sku-series', 'karpenter.azure.com/sku-version', 'karpenter.azure.com/sku-cpu', 'karpenter.azure.com/sku-memory', 'karpenter.azure.com/sku-networking-accelerated', 'karpenter.azure.com/sku-storage-premium-capable', 'karpenter.azure.com/sku-storage-ephemeralos-maxsize', 'karpenter.azure.com/sku-storage-ultra-ssd', 'karpenter.azure.com/sku-gpu-name', 'karpenter.azure.com/sku-gpu-manufacturer', 'karpenter.azure.com/sku-gpu-count', 'karpenter.azure.com/placement-scope']",message="label domain \"karpenter.azure.com\" is restricted: this key is none of the labels Azure instance types have"
	// +kubebuilder:validation:XValidation:rule="!self.find('^([^/]+)').endsWith('kubernetes.azure.com') || self in ['kubernetes.azure.com/mode', 'kubernetes.azure.com/scalesetpriority', 'kubernetes.azure.com/priority', 'kubernetes.azure.com/fips_enabled', 'kubernetes.azure.com/os-sku', 'kubernetes.azure.com/cluster', 'kubernetes.azure.com/sku-cpu', 'kubernetes.azure.com/sku-memory', 'kubernetes.azure.com/ebpf-dataplane', 'kubernetes.azure.com/ebpf-host-routing', 'kubernetes.azure.com/network-policy', 'kubernetes.azure.com/hostedvm']",message="label domain \"kubernetes.azure.com\" is restricted: this key is none of the labels instance types of AKS have"
	// +kubebuilder:validation:XValidation:rule="!self.find('^([^/]+)').endsWith('karpenter.kwok.sh') || self in ['karpenter.kwok.sh/kwoknodeclass', 'karpenter.kwok.sh/instance-size', 'karpenter.kwok.sh/instance-family', 'karpenter.kwok.sh/instance-cpu', 'karpenter.kwok.sh/instance-memory']",message="label domain \"karpenter.kwok.sh\" is restricted: this key is none of the labels KWOK instance types have"
	// +kubebuilder:validation:XValidation:rule="!self.find('^([^/]+)').endsWith('karpenter.cluster.x-k8s.io') || self in ['karpenter.cluster.x-k8s.io/clusterapinodeclass', 'karpenter.cluster.x-k8s.io/instance-size', 'karpenter.cluster.x-k8s.io/instance-family', 'karpenter.cluster.x-k8s.io/instance-cpu', 'karpenter.cluster.x-k8s.io/instance-memory']",message="label domain \"karpenter.cluster.x-k8s.io\" is restricted: this key is none of the labels Cluster API instance types have"
	// +required
	Key string `json:"key"`

	// Operator says how Values limit the label.
	// +required
	Operator v1.Operator `json:"operator"`

	// Values are compared with the label.
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
}

// NodeOverlayStatus says whether an overlay is in force.
type NodeOverlayStatus struct {
	// Conditions say whether the overlay is in force, and why not.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GetConditions are the conditions of the overlay.
func (o *NodeOverlay) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions replaces the conditions of the overlay.
func (o *NodeOverlay) SetConditions(c []metav1.Condition) { o.Status.Conditions = c }

// DependentConditions must all be True for the overlay to be Ready.
func (o *NodeOverlay) DependentConditions() []string {
	return []string{v1.ConditionValidationSucceeded}
}
