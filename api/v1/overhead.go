package v1

import "k8s.io/apimachinery/pkg/api/resource"

// Overhead is what nodes keep back from pods, by the names of the kubelet's configuration.
type Overhead struct {
	// KubeReserved is kept for the kubelet and the container runtime.
	// +optional
	KubeReserved ReservedResources `json:"kubeReserved,omitempty"`
	// SystemReserved is kept for the operating system.
	// +optional
	SystemReserved ReservedResources `json:"systemReserved,omitempty"`
	// EvictionHard is what must stay free: memory.available and nodefs.available, as quantities or percentages.
	// +kubebuilder:validation:MaxProperties=2
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['memory.available', 'nodefs.available'])",message="evictionHard knows memory.available and nodefs.available"
	// +optional
	EvictionHard map[string]EvictionThreshold `json:"evictionHard,omitempty"`
}

// An EvictionThreshold is a quantity such as 100Mi, or a percentage such as 5%; 100% switches it off.
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:Pattern=`^([0-9]{1,2}([.][0-9]+)?%|100%|[0-9]+([.][0-9]+)?([KMGTPE]i?|k|m)?)$`
type EvictionThreshold string

// ReservedResources are quantities of cpu, memory and ephemeral-storage.
// +kubebuilder:validation:MaxProperties=3
// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])",message="only cpu, memory and ephemeral-storage can be reserved"
type ReservedResources map[string]resource.Quantity
