package v1

// An Operator says how the values of a Requirement limit a label.
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt;Gte;Lte
type Operator string

// The operators. The last four compare the label as an integer.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
	Gt           Operator = "Gt"
	Lt           Operator = "Lt"
	Gte          Operator = "Gte"
	Lte          Operator = "Lte"
)

// Numeric reports whether the operator takes one integer.
func (o Operator) Numeric() bool { return o == Gt || o == Lt || o == Gte || o == Lte }

// A Requirement limits the labels of machines.
//
// +kubebuilder:validation:XValidation:rule="self.operator != 'In' || (has(self.values) && size(self.values) > 0)",message="operator In needs at least one value",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(self.values) && size(self.values) == 1 && int(self.values[0]) >= 0)",message="values must hold exactly one integer of 0 or more for the operators Gt, Lt, Gte and Lte",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="self.operator != 'In' || !has(self.minValues) || (has(self.values) && size(self.values) >= self.minValues)",message="operator In needs at least as many values as minValues asks for",fieldPath=".values"
type Requirement struct {
	// Key is the label that is limited.
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +kubebuilder:validation:XValidation:rule="self in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !self.find('^([^/]+)').endsWith('karpenter.sh')",message="labels of domain karpenter.sh are reserved, except karpenter.sh/capacity-type"
	// +kubebuilder:validation:XValidation:rule="self != 'kubernetes.io/hostname'",message="label kubernetes.io/hostname cannot be required: every machine gets its own"
	// +kubebuilder:validation:XValidation:rule="!self.find('^([^/]+)').endsWith('karpenter.k8s.aws') || self in ['karpenter.k8s.aws/instance-tenancy', 'karpenter.k8s.aws/capacity-reservation-type', 'karpenter.k8s.aws/capacity-reservation-id', 'karpenter.k8s.aws/capacity-reservation-interruptible', 'karpenter.k8s.aws/ec2nodeclass', 'karpenter.k8s.aws/instance-encryption-in-transit-supported', 'karpenter.k8s.aws/nitro-sandbox', 'karpenter.k8s.aws/instance-category', 'karpenter.k8s.aws/instance-hypervisor', 'karpenter.k8s.aws/instance-family', 'karpenter.k8s.aws/instance-generation', 'karpenter.k8s.aws/instance-local-nvme', 'karpenter.k8s.aws/instance-size', 'karpenter.k8s.aws/instance-cpu', 'karpenter.k8s.aws/instance-cpu-manufacturer', 'karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz', 'karpenter.k8s.aws/instance-memory', 'karpenter.k8s.aws/instance-ebs-bandwidth', 'karpenter.k8s.aws/instance-network-bandwidth', 'karpenter.k8s.aws/instance-gpu-name', 'karpenter.k8s.aws/instance-gpu-manufacturer', 'karpenter.k8s.aws/instance-gpu-count', 'karpenter.k8s.aws/instance-gpu-memory', 'karpenter.k8s.aws/instance-accelerator-name', 'karpenter.k8s.aws/instance-accelerator-manufacturer', 'karpenter.k8s.aws/instance-accelerator-count', 'karpenter.k8s.aws/instance-capability-flex', 'karpenter.k8s.aws/placement-group-id', 'karpenter.k8s.aws/placement-group-partition']",message="label domain \"karpenter.k8s.aws\" is restricted: this key is none of the labels AWS machines carry"
	// +kubebuilder:validation:XValidation:rule="!self.find('^([^/]+)').endsWith('karpenter.azure.com') || self in ['karpenter.azure.com/aksnodeclass', 'karpenter.azure.com/sku-name', 'karpenter.azure.com/sku-family', 'karpenter.azure.com/sku-series', 'karpenter.azure.com/sku-version', 'karpenter.azure.com/sku-cpu', 'karpenter.azure.com/sku-memory', 'karpenter.azure.com/sku-networking-accelerated', 'karpenter.azure.com/sku-storage-premium-capable', 'karpenter.azure.com/sku-storage-ephemeralos-maxsize', 'karpenter.azure.com/sku-storage-ultra-ssd', 'karpenter.azure.com/sku-gpu-name', 'karpenter.azure.com/sku-gpu-manufacturer', 'karpenter.azure.com/sku-gpu-count', 'karpenter.azure.com/placement-scope']",message="label domain \"karpenter.azure.com\" is restricted: this key is none of the labels Azure machines carry"
	// +kubebuilder:validation:XValidation:rule="!self.find('^([^/]+)').endsWith('kubernetes.azure.com') || self in ['kubernetes.azure.com/mode', 'kubernetes.azure.com/scalesetpriority', 'kubernetes.azure.com/priority', 'kubernetes.azure.com/fips_enabled', 'kubernetes.azure.com/os-sku', 'kubernetes.azure.com/cluster', 'kubernetes.azure.com/sku-cpu', 'kubernetes.azure.com/sku-memory', 'kubernetes.azure.com/ebpf-dataplane', 'kubernetes.azure.com/ebpf-host-routing', 'kubernetes.azure.com/network-policy', 'kubernetes.azure.com/hostedvm']",message="label domain \"kubernetes.azure.com\" is restricted: this key is none of the labels machines of AKS carry"
	// +kubebuilder:validation:XValidation:rule="!self.find('^([^/]+)').endsWith('karpenter.kwok.sh') || self in ['karpenter.kwok.sh/kwoknodeclass', 'karpenter.kwok.sh/instance-size', 'karpenter.kwok.sh/instance-family', 'karpenter.kwok.sh/instance-cpu', 'karpenter.kwok.sh/instance-memory']",message="label domain \"karpenter.kwok.sh\" is restricted: this key is none of the labels KWOK machines carry"
	// +kubebuilder:validation:XValidation:rule="!self.find('^([^/]+)').endsWith('karpenter.cluster.x-k8s.io') || self in ['karpenter.cluster.x-k8s.io/clusterapinodeclass', 'karpenter.cluster.x-k8s.io/instance-size', 'karpenter.cluster.x-k8s.io/instance-family', 'karpenter.cluster.x-k8s.io/instance-cpu', 'karpenter.cluster.x-k8s.io/instance-memory']",message="label domain \"karpenter.cluster.x-k8s.io\" is restricted: this key is none of the labels Cluster API machines carry"
	// +required
	Key string `json:"key"`

	// Operator says how Values limit the label.
	// +required
	Operator Operator `json:"operator"`

	// Values are compared with the label: at least one for In, any number for
	// NotIn, exactly one integer for Gt, Lt, Gte and Lte, none otherwise.
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`

	// MinValues is how many different values of this label the instance types
	// offered to the cloud must show, so that one sold-out type does not stop a
	// launch. Alpha.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	// +optional
	MinValues *int `json:"minValues,omitempty"`
}
