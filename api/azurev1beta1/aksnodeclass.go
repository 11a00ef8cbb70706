package azurev1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

// An AKSNodeClass says how virtual machines of Azure are made: from which images, in which network, with which disks and rights.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=aksnodeclasses,singular=aksnodeclass,scope=Cluster,categories={karpenter,nap},shortName={aksnc,aksncs}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether machines can be made from it"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="ImageFamily",type="string",JSONPath=".spec.imageFamily",priority=1,description="Which images machines are started from"
type AKSNodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is how machines are made.
	// +kubebuilder:default={}
	// +optional
	Spec AKSNodeClassSpec `json:"spec,omitempty"`

	// Status is what was found for it.
	// +optional
	Status AKSNodeClassStatus `json:"status,omitempty"`
}

// AKSNodeClassList is a list of AKSNodeClasses.
// +kubebuilder:object:root=true
type AKSNodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AKSNodeClass `json:"items"`
}

// Families of images.
const (
	FamilyUbuntu     = "Ubuntu"
	FamilyUbuntu2204 = "Ubuntu2204"
	FamilyUbuntu2404 = "Ubuntu2404"
	FamilyAzureLinux = "AzureLinux"
	FamilyCustom     = "Custom" // ours: the image that imageID names
)

// AKSNodeClassSpec is how machines are made. Which of its fields make existing machines drift, Hash says.
//
// +kubebuilder:validation:XValidation:rule="!has(self.fipsMode) || self.fipsMode != 'FIPS' || (has(self.imageFamily) && self.imageFamily != 'Ubuntu2404')",message="FIPS is not yet supported for Ubuntu2404"
// +kubebuilder:validation:XValidation:rule="!has(self.fipsMode) || self.fipsMode != 'FIPS' || !has(self.imageFamily) || self.imageFamily != 'Ubuntu2204' || (has(self.security) && has(self.security.trustedLaunch) && ((has(self.security.trustedLaunch.vtpm) && self.security.trustedLaunch.vtpm) || (has(self.security.trustedLaunch.secureBoot) && self.security.trustedLaunch.secureBoot)))",message="TrustedLaunch is required for FIPS support with Ubuntu2204"
// +kubebuilder:validation:XValidation:rule="!has(self.fipsMode) || self.fipsMode != 'FIPS' || !has(self.security) || !has(self.security.trustedLaunch) || !((has(self.security.trustedLaunch.vtpm) && self.security.trustedLaunch.vtpm) || (has(self.security.trustedLaunch.secureBoot) && self.security.trustedLaunch.secureBoot)) || (has(self.imageFamily) && self.imageFamily in ['Ubuntu', 'Ubuntu2204'])",message="TrustedLaunch with FIPSMode FIPS is only supported for Ubuntu and Ubuntu2204"
// +kubebuilder:validation:XValidation:rule="!has(self.linuxOSConfig) || !has(self.linuxOSConfig.swapFileSize) || (has(self.kubelet) && has(self.kubelet.failSwapOn) && !self.kubelet.failSwapOn)",message="kubelet.failSwapOn must be set to false when linuxOSConfig.swapFileSize is specified"
// +kubebuilder:validation:XValidation:rule="has(self.imageID) == (has(self.imageFamily) && self.imageFamily == 'Custom')",message="imageID must be given with imageFamily Custom, and only with it"
// +kubebuilder:validation:XValidation:rule="!has(self.fipsMode) || self.fipsMode != 'FIPS' || !has(self.imageFamily) || self.imageFamily != 'Custom'",message="fipsMode FIPS chooses among the images of AKS; an image of one's own brings FIPS along or not"
// +kubebuilder:validation:XValidation:rule="!has(self.overhead) || has(self.userData) || has(self.imageID)",message="overhead needs userData or imageID: images of AKS are told what to keep back"
// +kubebuilder:validation:XValidation:rule="!has(self.osDiskStorageAccountType) || !has(self.osDiskType) || self.osDiskType != 'Ephemeral'",message="osDiskStorageAccountType is of managed disks: osDiskType cannot be Ephemeral"
type AKSNodeClassSpec struct {
	// VNETSubnetID is the subnet that machines are started in. Without it, that of the controller's settings.
	// +kubebuilder:validation:Pattern=`(?i)^/subscriptions/[^/]+/resourceGroups/[-A-Za-z0-9_().]{0,89}[-A-Za-z0-9_()]/providers/Microsoft\.Network/virtualNetworks/[^/]+/subnets/[^/]+$`
	// +optional
	VNETSubnetID string `json:"vnetSubnetID,omitempty"`

	// OSDiskSizeGB is the size of the operating system's disk.
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=2048
	// +kubebuilder:default=128
	// +optional
	OSDiskSizeGB *int32 `json:"osDiskSizeGB,omitempty"`

	// OSDiskType is where the operating system's disk is: Ephemeral on the machine's own disks, Managed in Azure's storage.
	// Without it, Ephemeral where there is room.
	// +kubebuilder:validation:Enum={Managed,Ephemeral}
	// +optional
	OSDiskType string `json:"osDiskType,omitempty"`

	// OSDiskStorageAccountType is the kind of storage of a managed disk of the operating system. Without it, Azure's default.
	// +kubebuilder:validation:Enum={Standard_LRS,StandardSSD_LRS,StandardSSD_ZRS,Premium_LRS,Premium_ZRS}
	// +optional
	OSDiskStorageAccountType string `json:"osDiskStorageAccountType,omitempty"`

	// DataDisks are more disks. They are made and deleted with their machine.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=lun
	// +optional
	DataDisks []DataDisk `json:"dataDisks,omitempty"`

	// ImageFamily is which images of AKS machines are started from; Custom is the one that imageID names.
	// +kubebuilder:validation:Enum={Ubuntu,Ubuntu2204,Ubuntu2404,AzureLinux,Custom}
	// +kubebuilder:default=Ubuntu
	// +optional
	ImageFamily string `json:"imageFamily,omitempty"`

	// ImageID is an image of one's own: the resource ID of an image, of a gallery's image or one version of it, the ID of a
	// community gallery's image, or publisher:offer:sku:version of the Marketplace. Without a version, or with the version
	// latest, it is the newest when a machine is started. Plan and architecture are those of the image.
	// +kubebuilder:validation:Pattern=`(?i)^(/subscriptions/[^/]+/resourceGroups/[-A-Za-z0-9_().]{0,89}[-A-Za-z0-9_()]/providers/Microsoft\.Compute/(images/[^/]+|galleries/[^/]+/images/[^/]+(/versions/[^/]+)?)|/communityGalleries/[^/]+/images/[^/]+(/versions/[^/]+)?|[^/:\s]+:[^/:\s]+:[^/:\s]+:[^/:\s]+)$`
	// +optional
	ImageID string `json:"imageID,omitempty"`

	// UserData is what machines are given for cloud-init, in place of what images of AKS are told. Azure takes 65535 bytes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65535
	// +optional
	UserData string `json:"userData,omitempty"`

	// Overhead is what nodes keep back from pods where userData, or an image of one's own, starts the kubelet. It is only
	// planned with. Without it, the defaults of the kubelet.
	// +optional
	Overhead *v1.Overhead `json:"overhead,omitempty"`

	// FIPSMode FIPS chooses images whose cryptography is validated by FIPS 140.
	// +kubebuilder:validation:Enum={FIPS,Disabled}
	// +optional
	FIPSMode string `json:"fipsMode,omitempty"`

	// Tags are put on machines and what belongs to them. They are changed in place. A / in a key is written as _.
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 512)",message="the key of a tag has at most 512 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('[<>%&?\\\\\\\\]'))",message="the key of a tag has none of the characters < > % & ? and \\"
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(self[k]) <= 256)",message="the value of a tag has at most 256 characters"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`

	// ManagedIdentities are user-assigned identities that machines get, beside those of the controller's settings. They are
	// added in place; those that are taken away stay until their machine is replaced.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:Pattern=`(?i)^/subscriptions/[^/]+/resourceGroups/[-A-Za-z0-9_().]{0,89}[-A-Za-z0-9_()]/providers/Microsoft\.ManagedIdentity/userAssignedIdentities/[^/]+$`
	// +listType=set
	// +optional
	ManagedIdentities []string `json:"managedIdentities,omitempty"`

	// NetworkSecurityGroupID is the network security group of the machines' network interfaces.
	// +kubebuilder:validation:Pattern=`(?i)^/subscriptions/[^/]+/resourceGroups/[-A-Za-z0-9_().]{0,89}[-A-Za-z0-9_()]/providers/Microsoft\.Network/networkSecurityGroups/[^/]+$`
	// +optional
	NetworkSecurityGroupID string `json:"networkSecurityGroupID,omitempty"`

	// ApplicationSecurityGroupIDs are the application security groups of the machines' network interfaces.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:Pattern=`(?i)^/subscriptions/[^/]+/resourceGroups/[-A-Za-z0-9_().]{0,89}[-A-Za-z0-9_()]/providers/Microsoft\.Network/applicationSecurityGroups/[^/]+$`
	// +listType=set
	// +optional
	ApplicationSecurityGroupIDs []string `json:"applicationSecurityGroupIDs,omitempty"`

	// LoadBalancerBackendPoolIDs are the backend pools of load balancers that machines are put into.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:Pattern=`(?i)^/subscriptions/[^/]+/resourceGroups/[-A-Za-z0-9_().]{0,89}[-A-Za-z0-9_()]/providers/Microsoft\.Network/loadBalancers/[^/]+/backendAddressPools/[^/]+$`
	// +listType=set
	// +optional
	LoadBalancerBackendPoolIDs []string `json:"loadBalancerBackendPoolIDs,omitempty"`

	// Kubelet is what kubelets of AKS's images are told.
	// +optional
	Kubelet *KubeletConfiguration `json:"kubelet,omitempty"`

	// MaxPods is how many pods a node takes. Without it, that depends on how the cluster's network is made.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=250
	// +optional
	MaxPods *int32 `json:"maxPods,omitempty"`

	// Security is how machines are protected.
	// +optional
	Security *Security `json:"security,omitempty"`

	// LocalDNS is a DNS cache on every machine.
	// +optional
	LocalDNS *LocalDNS `json:"localDNS,omitempty"`

	// GPU is what is done for the GPUs of machines that have any.
	// +optional
	GPU *GPU `json:"gpu,omitempty"`

	// ArtifactStreaming has containers start before their image is there as a whole.
	// +optional
	ArtifactStreaming *ArtifactStreaming `json:"artifactStreaming,omitempty"`

	// LinuxOSConfig is how the operating system of AKS's images is set up.
	// +optional
	LinuxOSConfig *LinuxOSConfig `json:"linuxOSConfig,omitempty"`
}

// Modes of FIPS.
const (
	FIPSEnabled  = "FIPS"
	FIPSDisabled = "Disabled" // the same as none
)

// Types of the operating system's disk.
const (
	OSDiskManaged   = "Managed"
	OSDiskEphemeral = "Ephemeral"
)

// A DataDisk is one more disk of a machine.
//
// +kubebuilder:validation:XValidation:rule="!has(self.storageAccountType) || !(self.storageAccountType in ['PremiumV2_LRS', 'UltraSSD_LRS']) || !has(self.caching) || self.caching == 'None'",message="disks of PremiumV2_LRS and UltraSSD_LRS have no cache"
type DataDisk struct {
	// SizeGB is how large it is.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	// +required
	SizeGB int32 `json:"sizeGB"`
	// LUN is the number that the machine finds it by.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	// +required
	LUN int32 `json:"lun"`
	// StorageAccountType is the kind of its storage. Without it, Azure's default.
	// +kubebuilder:validation:Enum={Standard_LRS,StandardSSD_LRS,StandardSSD_ZRS,Premium_LRS,Premium_ZRS,PremiumV2_LRS,UltraSSD_LRS}
	// +optional
	StorageAccountType string `json:"storageAccountType,omitempty"`
	// Caching says whether the machine's host keeps a copy. Without it, Azure's default.
	// +kubebuilder:validation:Enum={None,ReadOnly,ReadWrite}
	// +optional
	Caching string `json:"caching,omitempty"`
}

// Security is how machines are protected.
type Security struct {
	// EncryptionAtHost encrypts temporary disks and caches too. Some sizes cannot do it.
	// +optional
	EncryptionAtHost bool `json:"encryptionAtHost,omitempty"`
	// TrustedLaunch protects machines against changed boot loaders and kernels.
	// +optional
	TrustedLaunch *TrustedLaunch `json:"trustedLaunch,omitempty"`
}

// TrustedLaunch is in use if any of its fields is true.
type TrustedLaunch struct {
	// VTPM gives machines a virtual trusted platform module.
	// +optional
	VTPM bool `json:"vtpm,omitempty"`
	// SecureBoot has machines start only software that is signed.
	// +optional
	SecureBoot bool `json:"secureBoot,omitempty"`
}

// GPU is what is done for GPUs.
type GPU struct {
	// Mode Driver installs the driver. With None, drivers are left to others, and sizes without one of AKS's can be used too.
	// +kubebuilder:validation:Enum={Driver,None}
	// +kubebuilder:default=Driver
	// +optional
	Mode string `json:"mode,omitempty"`
}

// ArtifactStreaming has containers start before their image is there as a whole.
type ArtifactStreaming struct {
	// Enabled turns it on. Machines of arm64 cannot do it.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}
