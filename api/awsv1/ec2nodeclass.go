package awsv1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// An EC2NodeClass says how machines of EC2 are made: from which images, in which networks, with which disks and rights.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ec2nodeclasses,singular=ec2nodeclass,scope=Cluster,categories=karpenter,shortName={ec2nc,ec2ncs}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether machines can be made from it"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Role",type="string",JSONPath=".spec.role",priority=1,description="IAM role of the machines"
type EC2NodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is how machines are made.
	// +kubebuilder:validation:XValidation:rule="has(self.role) != has(self.instanceProfile)",message="exactly one of role and instanceProfile must be given"
	// +kubebuilder:validation:XValidation:rule="has(self.amiFamily) || self.amiSelectorTerms.exists(t, has(t.alias))",message="amiFamily must be given when no term of amiSelectorTerms is an alias"
	// +kubebuilder:validation:XValidation:rule="!has(self.amiFamily) || self.amiFamily == 'Custom' || self.amiSelectorTerms.all(t, !has(t.alias) || t.alias.split('@')[0] == self.amiFamily.lowerAscii())",message="amiFamily must be that of the alias, or Custom"
	// +required
	Spec EC2NodeClassSpec `json:"spec"`

	// Status is what was found in the account.
	// +optional
	Status EC2NodeClassStatus `json:"status,omitempty"`
}

// EC2NodeClassList is a list of EC2NodeClasses.
// +kubebuilder:object:root=true
type EC2NodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EC2NodeClass `json:"items"`
}

// EC2NodeClassSpec is how machines are made. Which of its fields make existing machines drift, Hash says.
type EC2NodeClassSpec struct {
	// SubnetSelectorTerms find the subnets that machines are started in. A subnet that any term finds is used.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id))",message="each term needs tags or id"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !(has(t.id) && has(t.tags)))",message="id cannot be combined with tags"
	// +required
	SubnetSelectorTerms []SubnetSelectorTerm `json:"subnetSelectorTerms"`

	// SecurityGroupSelectorTerms find the security groups that machines get. They get all that any term finds.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id) || has(t.name))",message="each term needs tags, id or name"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !(has(t.id) && (has(t.tags) || has(t.name))))",message="id cannot be combined with tags or name"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !(has(t.name) && has(t.tags)))",message="name cannot be combined with tags"
	// +required
	SecurityGroupSelectorTerms []SecurityGroupSelectorTerm `json:"securityGroupSelectorTerms"`

	// CapacityReservationSelectorTerms find the capacity reservations that machines may use.
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id) || has(t.instanceMatchCriteria))",message="each term needs tags, id or instanceMatchCriteria"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !(has(t.id) && (has(t.tags) || has(t.ownerID) || has(t.instanceMatchCriteria))))",message="id cannot be combined with tags, ownerID or instanceMatchCriteria"
	// +optional
	CapacityReservationSelectorTerms []CapacityReservationSelectorTerm `json:"capacityReservationSelectorTerms,omitempty"`

	// PlacementGroupSelector names the placement group that machines are started in.
	// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.id)",message="exactly one of name and id must be given"
	// +optional
	PlacementGroupSelector *PlacementGroupSelector `json:"placementGroupSelector,omitempty"`

	// AssociatePublicIPAddress gives machines a public address, or none; without it the subnet decides.
	// +optional
	AssociatePublicIPAddress *bool `json:"associatePublicIPAddress,omitempty"`

	// IPPrefixCount is the number of address prefixes given to a machine's network interface at the start. It does not change
	// the number of pods: set maxPods with it.
	// +kubebuilder:validation:Minimum=0
	// +optional
	IPPrefixCount *int32 `json:"ipPrefixCount,omitempty"`

	// AMISelectorTerms find the images that machines are started from. Of those that fit a machine the newest is used.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id) || has(t.name) || has(t.alias) || has(t.ssmParameter))",message="each term needs alias, tags, id, name or ssmParameter"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !(has(t.id) && (has(t.alias) || has(t.tags) || has(t.name) || has(t.owner))))",message="id cannot be combined with alias, tags, name or owner"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !(has(t.alias) && (has(t.id) || has(t.tags) || has(t.name) || has(t.owner))))",message="alias cannot be combined with id, tags, name or owner"
	// +kubebuilder:validation:XValidation:rule="!self.exists(t, has(t.alias)) || size(self) == 1",message="a term with an alias must be the only one"
	// +required
	AMISelectorTerms []AMISelectorTerm `json:"amiSelectorTerms"`

	// AMIFamily says how an image is told what its node is to be: the form of the user data, the default disks, what the
	// kubelet keeps back. An alias implies it.
	// +kubebuilder:validation:Enum={AL2,AL2023,Bottlerocket,Custom,Windows2019,Windows2022,Windows2025}
	// +optional
	AMIFamily *string `json:"amiFamily,omitempty"`

	// UserData is handed to machines, merged with what the family needs.
	// +optional
	UserData *string `json:"userData,omitempty"`

	// Role is the IAM role of the machines; an instance profile is made for it.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Role string `json:"role,omitempty"`

	// InstanceProfile is an instance profile that exists already.
	// +kubebuilder:validation:MinLength=1
	// +optional
	InstanceProfile *string `json:"instanceProfile,omitempty"`

	// Tags are put on machines, their volumes and network interfaces, and on what is made for the class.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '')",message="a tag needs a key"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('kubernetes.io/cluster'))",message="tags that begin with kubernetes.io/cluster are set by the controller"
	// +kubebuilder:validation:XValidation:rule="!('eks:eks-cluster-name' in self)",message="tag eks:eks-cluster-name is set by the controller"
	// +kubebuilder:validation:XValidation:rule="!('karpenter.sh/nodepool' in self)",message="tag karpenter.sh/nodepool is set by the controller"
	// +kubebuilder:validation:XValidation:rule=`!("karpenter.sh/nodeclaim" in self)`,message="tag karpenter.sh/nodeclaim is set by the controller"
	// +kubebuilder:validation:XValidation:rule="!('karpenter.k8s.aws/ec2nodeclass' in self)",message="tag karpenter.k8s.aws/ec2nodeclass is set by the controller"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`

	// Kubelet holds fields of KubeletConfiguration (kubelet.config.k8s.io/v1beta1). Which of them an image can be given
	// depends on its family.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Kubelet *runtime.RawExtension `json:"kubelet,omitempty"`

	// BlockDeviceMappings are the machines' volumes. Without any the family's own are used.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:XValidation:rule="self.filter(m, has(m.rootVolume) && m.rootVolume).size() <= 1",message="only one volume can be the root volume"
	// +optional
	BlockDeviceMappings []BlockDeviceMapping `json:"blockDeviceMappings,omitempty"`

	// InstanceStorePolicy says what is done with disks that a machine has of its own: RAID0 makes them one, for pods.
	// +kubebuilder:validation:Enum={RAID0}
	// +optional
	InstanceStorePolicy *string `json:"instanceStorePolicy,omitempty"`

	// DetailedMonitoring has machines report every minute.
	// +optional
	DetailedMonitoring *bool `json:"detailedMonitoring,omitempty"`

	// MetadataOptions say how software on a machine reaches the instance metadata service.
	// +kubebuilder:default={httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: required}
	// +optional
	MetadataOptions *MetadataOptions `json:"metadataOptions,omitempty"`

	// NetworkInterfaces are the machines' network interfaces. Without any they get one.
	// +kubebuilder:validation:MaxItems=150
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.exists(n, n.networkCardIndex == 0 && n.deviceIndex == 0 && n.interfaceType == 'interface')",message="one must be of type interface, with networkCardIndex 0 and deviceIndex 0"
	// +kubebuilder:validation:XValidation:rule="self.all(n, self.exists_one(m, m.networkCardIndex == n.networkCardIndex && m.deviceIndex == n.deviceIndex))",message="no two can have the same networkCardIndex and deviceIndex"
	// +kubebuilder:validation:XValidation:rule="self.all(n, n.interfaceType != 'efa-only' || self.exists_one(m, m.networkCardIndex == n.networkCardIndex && m.interfaceType == 'efa-only'))",message="a network card can have only one efa-only interface"
	// +optional
	NetworkInterfaces []NetworkInterface `json:"networkInterfaces,omitempty"`

	// ConnectionTracking says how long idle connections are remembered by security groups.
	// +kubebuilder:validation:XValidation:rule="has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",message="at least one of tcpEstablishedTimeout, udpStreamTimeout and udpTimeout must be given"
	// +optional
	ConnectionTracking *ConnectionTracking `json:"connectionTracking,omitempty"`

	// Context is handed to EC2's CreateFleet as it is.
	// +optional
	Context *string `json:"context,omitempty"`

	// CPUOptions turn features of the processors on or off.
	// +optional
	CPUOptions *CPUOptions `json:"cpuOptions,omitempty"`

	// EnclaveOptions have machines run Nitro Enclaves.
	// +optional
	EnclaveOptions *EnclaveOptions `json:"enclaveOptions,omitempty"`
}
