package v1

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A NodePool says which machines may be started, how many, and when they may
// be replaced.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodepools,scope=Cluster,categories=karpenter
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.nodes
// +kubebuilder:printcolumn:name="NodeClass",type="string",JSONPath=".spec.template.spec.nodeClassRef.name",description="Node class the machines are made from"
// +kubebuilder:printcolumn:name="Nodes",type="string",JSONPath=".status.nodes",description="Number of nodes"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether the pool may start machines"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Weight",type="integer",JSONPath=".spec.weight",priority=1,description="Heavier pools are used first"
// +kubebuilder:printcolumn:name="CPU",type="string",JSONPath=".status.resources.cpu",priority=1,description="Cores of the pool's nodes"
// +kubebuilder:printcolumn:name="Memory",type="string",JSONPath=".status.resources.memory",priority=1,description="Memory of the pool's nodes"
type NodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the pool may do.
	// +kubebuilder:validation:XValidation:rule="has(self.replicas) == has(oldSelf.replicas)",message="replicas can be neither added to nor removed from an existing pool: create another one",fieldPath=".replicas",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits)",message="limits of a pool with replicas may only hold nodes",fieldPath=".limits"
	// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.weight)",message="weight cannot be set on a pool with replicas",fieldPath=".weight"
	// +required
	Spec NodePoolSpec `json:"spec"`

	// Status is what the pool has.
	// +optional
	Status NodePoolStatus `json:"status,omitempty"`
}

// NodePoolList is a list of NodePools.
// +kubebuilder:object:root=true
type NodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePool `json:"items"`
}

// NodePoolSpec is what a pool may do.
type NodePoolSpec struct {
	// Template is the shape of the pool's NodeClaims. Requirements of pods narrow
	// it further.
	// +required
	Template NodeClaimTemplate `json:"template"`

	// Disruption says when machines may be removed or replaced.
	// +kubebuilder:default={consolidateAfter: "0s"}
	// +optional
	Disruption Disruption `json:"disruption"`

	// Limits are the most that the machines of the pool may have together. A
	// resource that is not named is unlimited; nodes counts the machines.
	// +optional
	Limits Limits `json:"limits,omitempty"`

	// Weight orders pools: heavier ones are used first. Unset means 0.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Weight *int32 `json:"weight,omitempty"`

	// Replicas makes the pool static: it keeps this many machines, whatever pods
	// there are. Alpha; it needs the feature gate StaticCapacity.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int64 `json:"replicas,omitempty"`
}

// Limits are the most that the machines of a pool may have together.
type Limits corev1.ResourceList

// NodeClaimTemplate is the shape of a pool's NodeClaims. Type and field names
// here and below are part of the drift hash.
type NodeClaimTemplate struct {
	// +optional
	ObjectMeta `json:"metadata,omitempty"`

	// Spec is the part of a NodeClaim that the pool decides.
	// +required
	Spec NodeClaimTemplateSpec `json:"spec"`
}

// ObjectMeta holds what every machine of a pool carries.
// +kubebuilder:object:generate=false
type ObjectMeta struct {
	// Labels are put on every claim and node of the pool.
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, x in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !x.find('^([^/]+)').endsWith('karpenter.sh'))",message="labels of domain karpenter.sh are reserved, except karpenter.sh/capacity-type"
	// +kubebuilder:validation:XValidation:rule="self.all(x, x != 'karpenter.sh/nodepool')",message="label karpenter.sh/nodepool is set by the pool itself"
	// +kubebuilder:validation:XValidation:rule="self.all(x, x != 'kubernetes.io/hostname')",message="label kubernetes.io/hostname cannot be set: every machine gets its own"
	// +kubebuilder:validation:XValidation:rule="self.all(x, !x.find('^([^/]+)').endsWith('karpenter.k8s.aws') || x in ['karpenter.k8s.aws/instance-tenancy', 'karpenter.k8s.aws/capacity-reservation-type', 'karpenter.k8s.aws/capacity-reservation-id', 'karpenter.k8s.aws/capacity-reservation-interruptible', 'karpenter.k8s.aws/ec2nodeclass', 'karpenter.k8s.aws/instance-encryption-in-transit-supported', 'karpenter.k8s.aws/nitro-sandbox', 'karpenter.k8s.aws/instance-category', 'karpenter.k8s.aws/instance-hypervisor', 'karpenter.k8s.aws/instance-family', 'karpenter.k8s.aws/instance-generation', 'karpenter.k8s.aws/instance-local-nvme', 'karpenter.k8s.aws/instance-size', 'karpenter.k8s.aws/instance-cpu', 'karpenter.k8s.aws/instance-cpu-manufacturer', 'karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz', 'karpenter.k8s.aws/instance-memory', 'karpenter.k8s.aws/instance-ebs-bandwidth', 'karpenter.k8s.aws/instance-network-bandwidth', 'karpenter.k8s.aws/instance-gpu-name', 'karpenter.k8s.aws/instance-gpu-manufacturer', 'karpenter.k8s.aws/instance-gpu-count', 'karpenter.k8s.aws/instance-gpu-memory', 'karpenter.k8s.aws/instance-accelerator-name', 'karpenter.k8s.aws/instance-accelerator-manufacturer', 'karpenter.k8s.aws/instance-accelerator-count', 'karpenter.k8s.aws/instance-capability-flex', 'karpenter.k8s.aws/placement-group-id', 'karpenter.k8s.aws/placement-group-partition'])",message="label domain \"karpenter.k8s.aws\" is restricted: only labels that AWS machines carry may be set"
	// +kubebuilder:validation:XValidation:rule="self.all(x, !x.find('^([^/]+)').endsWith('karpenter.azure.com') || x in ['karpenter.azure.com/aksnodeclass', 'karpenter.azure.com/sku-name', 'karpenter.azure.com/sku-family', 'karpenter.azure.com/sku-series', 'karpenter.azure.com/sku-version', 'karpenter.azure.com/sku-cpu', 'karpenter.azure.com/sku-memory', 'karpenter.azure.com/sku-networking-accelerated', 'karpenter.azure.com/sku-storage-premium-capable', 'karpenter.azure.com/sku-storage-ephemeralos-maxsize', 'karpenter.azure.com/sku-storage-ultra-ssd', 'karpenter.azure.com/sku-gpu-name', 'karpenter.azure.com/sku-gpu-manufacturer', 'karpenter.azure.com/sku-gpu-count', 'karpenter.azure.com/placement-scope'])",message="label domain \"karpenter.azure.com\" is restricted: only labels that Azure machines carry may be set"
	// +kubebuilder:validation:XValidation:rule="self.all(x, !x.find('^([^/]+)').endsWith('kubernetes.azure.com') || x in ['kubernetes.azure.com/mode', 'kubernetes.azure.com/scalesetpriority', 'kubernetes.azure.com/priority', 'kubernetes.azure.com/fips_enabled', 'kubernetes.azure.com/os-sku', 'kubernetes.azure.com/cluster', 'kubernetes.azure.com/sku-cpu', 'kubernetes.azure.com/sku-memory', 'kubernetes.azure.com/ebpf-dataplane', 'kubernetes.azure.com/ebpf-host-routing', 'kubernetes.azure.com/network-policy', 'kubernetes.azure.com/hostedvm'])",message="label domain \"kubernetes.azure.com\" is restricted: only labels that machines of AKS carry may be set"
	// +kubebuilder:validation:XValidation:rule="self.all(x, !x.find('^([^/]+)').endsWith('karpenter.kwok.sh') || x in ['karpenter.kwok.sh/kwoknodeclass', 'karpenter.kwok.sh/instance-size', 'karpenter.kwok.sh/instance-family', 'karpenter.kwok.sh/instance-cpu', 'karpenter.kwok.sh/instance-memory'])",message="label domain \"karpenter.kwok.sh\" is restricted: only labels that KWOK machines carry may be set"
	// +kubebuilder:validation:XValidation:rule="self.all(x, !x.find('^([^/]+)').endsWith('karpenter.cluster.x-k8s.io') || x in ['karpenter.cluster.x-k8s.io/clusterapinodeclass', 'karpenter.cluster.x-k8s.io/instance-size', 'karpenter.cluster.x-k8s.io/instance-family', 'karpenter.cluster.x-k8s.io/instance-cpu', 'karpenter.cluster.x-k8s.io/instance-memory'])",message="label domain \"karpenter.cluster.x-k8s.io\" is restricted: only labels that Cluster API machines carry may be set"
	// +optional
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// Annotations are put on every claim and node of the pool.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// DeepCopyInto is written by hand because the generator does not see that
// LabelValue is plain text.
func (m *ObjectMeta) DeepCopyInto(out *ObjectMeta) {
	*out = ObjectMeta{Labels: maps.Clone(m.Labels), Annotations: maps.Clone(m.Annotations)}
}

// NodeClaimTemplateSpec is the part of a NodeClaim that the pool decides.
type NodeClaimTemplateSpec struct {
	// Taints are put on every node. Pods must tolerate them to run there.
	// +listType=atomic
	// +optional
	Taints []Taint `json:"taints,omitempty"`

	// StartupTaints are put on every node and taken off by somebody else once
	// the node is prepared. Pods need not tolerate them.
	// +listType=atomic
	// +optional
	StartupTaints []Taint `json:"startupTaints,omitempty"`

	// Requirements limit the labels of the machines, and with them their instance
	// types, zones and capacity types. An empty list allows everything the node
	// class offers.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, x.key != 'karpenter.sh/nodepool')",message="key karpenter.sh/nodepool cannot be required by a pool"
	// +required
	Requirements []Requirement `json:"requirements" hash:"ignore"`

	// NodeClassRef names the node class the machines are made from. Only its name
	// can be changed.
	// +kubebuilder:validation:XValidation:rule="self.group == oldSelf.group",message="group is immutable: create another pool",fieldPath=".group"
	// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind",message="kind is immutable: create another pool",fieldPath=".kind"
	// +required
	NodeClassRef *NodeClassReference `json:"nodeClassRef"`

	// TerminationGracePeriod is how long draining may take from the moment a
	// claim is deleted. Without it, draining waits as long as pods need.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +optional
	TerminationGracePeriod *metav1.Duration `json:"terminationGracePeriod,omitempty"`

	// ExpireAfter is the age at which a machine is removed, or Never.
	// +kubebuilder:default="720h"
	// +optional
	ExpireAfter NillableDuration `json:"expireAfter"`
}

// NodePoolStatus is what a pool has.
type NodePoolStatus struct {
	// Resources are the sum over the pool's nodes.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// Nodes is the number of nodes. It is always written, for readers of the
	// scale subresource.
	// +kubebuilder:default=0
	// +optional
	Nodes *int64 `json:"nodes"`

	// NodeClassObservedGeneration is the generation of the node class last seen.
	// When it changes, the pool's record of registrations starts anew.
	// +optional
	NodeClassObservedGeneration int64 `json:"nodeClassObservedGeneration,omitempty"`

	// Conditions say whether the pool can be used, and what is wrong.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
