package azurev1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KubeletConfiguration is what kubelets of AKS's images are told. Where userData starts the kubelet, it decides.
//
// +kubebuilder:validation:XValidation:rule="!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) || self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent",message="imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent"
type KubeletConfiguration struct {
	// CPUManagerPolicy static gives containers whole processors where they ask for them.
	// +kubebuilder:validation:Enum={none,static}
	// +kubebuilder:default=none
	// +optional
	CPUManagerPolicy string `json:"cpuManagerPolicy,omitempty"`

	// CPUCFSQuota enforces the CPU limits of containers.
	// +kubebuilder:default=true
	// +optional
	CPUCFSQuota *bool `json:"cpuCFSQuota,omitempty"`

	// CPUCFSQuotaPeriod is the time within which a CPU limit holds.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:default="100ms"
	// +optional
	CPUCFSQuotaPeriod *metav1.Duration `json:"cpuCFSQuotaPeriod,omitempty"`

	// ImageGCHighThresholdPercent of the disk in use has images deleted that no container uses.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ImageGCHighThresholdPercent *int32 `json:"imageGCHighThresholdPercent,omitempty"`

	// ImageGCLowThresholdPercent of the disk in use has that end.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ImageGCLowThresholdPercent *int32 `json:"imageGCLowThresholdPercent,omitempty"`

	// TopologyManagerPolicy says how processors and devices of a pod have to be near one another.
	// +kubebuilder:validation:Enum={none,restricted,best-effort,single-numa-node}
	// +kubebuilder:default=none
	// +optional
	TopologyManagerPolicy string `json:"topologyManagerPolicy,omitempty"`

	// AllowedUnsafeSysctls that pods may set, or patterns of them that end in *.
	// +optional
	AllowedUnsafeSysctls []string `json:"allowedUnsafeSysctls,omitempty"`

	// ContainerLogMaxSize is the size at which a container's log begins a new file.
	// +kubebuilder:validation:Pattern=`^\d+(E|P|T|G|M|K|Ei|Pi|Ti|Gi|Mi|Ki)$`
	// +kubebuilder:default="50Mi"
	// +optional
	ContainerLogMaxSize string `json:"containerLogMaxSize,omitempty"`

	// ContainerLogMaxFiles is how many files of a container's log are kept.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:default=5
	// +optional
	ContainerLogMaxFiles *int32 `json:"containerLogMaxFiles,omitempty"`

	// PodPidsLimit is how many processes a pod may have.
	// +optional
	PodPidsLimit *int64 `json:"podPidsLimit,omitempty"`

	// FailSwapOn has the kubelet refuse to start where swap is on.
	// +optional
	FailSwapOn *bool `json:"failSwapOn,omitempty"`
}
