package awsv1

import "k8s.io/apimachinery/pkg/api/resource"

// A BlockDeviceMapping is one volume of a machine.
type BlockDeviceMapping struct {
	// DeviceName is the name that the machine sees, /dev/xvda for example.
	// +optional
	DeviceName *string `json:"deviceName,omitempty"`

	// EBS is the volume.
	// +kubebuilder:validation:XValidation:rule="has(self.snapshotID) || has(self.volumeSize)",message="snapshotID or volumeSize must be given"
	// +kubebuilder:validation:XValidation:rule="!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",message="volumeInitializationRate needs a snapshotID"
	// +optional
	EBS *BlockDevice `json:"ebs,omitempty"`

	// RootVolume marks the volume that the kubelet works on.
	// +optional
	RootVolume bool `json:"rootVolume,omitempty"`
}

// A BlockDevice is a volume of EBS.
type BlockDevice struct {
	// DeleteOnTermination has the volume go with its machine.
	// +optional
	DeleteOnTermination *bool `json:"deleteOnTermination,omitempty"`

	// Encrypted has the volume encrypted.
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`

	// IOPS is the number of operations per second, of types that let one choose.
	// +optional
	IOPS *int64 `json:"iops,omitempty"`

	// KMSKeyID is the key to encrypt with.
	// +optional
	KMSKeyID *string `json:"kmsKeyID,omitempty"`

	// SnapshotID is what the volume holds at first.
	// +optional
	SnapshotID *string `json:"snapshotID,omitempty"`

	// Throughput in MiB/s, of type gp3.
	// +optional
	Throughput *int64 `json:"throughput,omitempty"`

	// VolumeInitializationRate is how fast the snapshot is loaded, in MiB/s.
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=300
	// +optional
	VolumeInitializationRate *int32 `json:"volumeInitializationRate,omitempty"`

	// VolumeSize is a quantity with one of the units G, Gi, T and Ti, up to 64T.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-4])T)$`
	// +optional
	VolumeSize *resource.Quantity `json:"volumeSize,omitempty"`

	// VolumeType is the kind of volume.
	// +kubebuilder:validation:Enum={standard,io1,io2,gp2,sc1,st1,gp3}
	// +optional
	VolumeType *string `json:"volumeType,omitempty"`
}

// MetadataOptions say how software on a machine reaches the instance metadata service.
type MetadataOptions struct {
	// HTTPEndpoint turns the service on or off.
	// +kubebuilder:default=enabled
	// +kubebuilder:validation:Enum={enabled,disabled}
	// +optional
	HTTPEndpoint *string `json:"httpEndpoint,omitempty"`

	// HTTPProtocolIPv6 turns its IPv6 address on or off.
	// +kubebuilder:default=disabled
	// +kubebuilder:validation:Enum={enabled,disabled}
	// +optional
	HTTPProtocolIPv6 *string `json:"httpProtocolIPv6,omitempty"`

	// HTTPPutResponseHopLimit is how many hops an answer may travel: with 1, pods on their own network do not reach it.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	HTTPPutResponseHopLimit *int64 `json:"httpPutResponseHopLimit,omitempty"`

	// HTTPTokens says whether session tokens are required.
	// +kubebuilder:default=required
	// +kubebuilder:validation:Enum={required,optional}
	// +optional
	HTTPTokens *string `json:"httpTokens,omitempty"`
}

// CPUOptions turn features of the processors on or off.
type CPUOptions struct {
	// NestedVirtualization lets machines run virtual machines.
	// +kubebuilder:validation:Enum={enabled,disabled}
	// +optional
	NestedVirtualization *string `json:"nestedVirtualization,omitempty"`
}

// EnclaveOptions have machines run Nitro Enclaves.
type EnclaveOptions struct {
	// Enabled starts only instance types that support Nitro Enclaves, with enclaves turned on. Without it they are turned on for machines of
	// pods that request eks.amazonaws.com/nitro-sandbox.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// Enclaves reports whether the class has its machines run Nitro Enclaves.
func (s *EC2NodeClassSpec) Enclaves() bool {
	return s.EnclaveOptions != nil && s.EnclaveOptions.Enabled != nil && *s.EnclaveOptions.Enabled
}
