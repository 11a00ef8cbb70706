package awsv1

// Tags select what carries all of them; the value * stands for any value.
//
// +kubebuilder:validation:MaxProperties=20
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) > 0 && size(self[k]) > 0)",message="neither the key nor the value of a tag can be empty"
type Tags map[string]string

// A SubnetSelectorTerm finds subnets.
type SubnetSelectorTerm struct {
	// Tags that the subnet carries.
	// +optional
	Tags Tags `json:"tags,omitempty"`

	// ID of the subnet.
	// +kubebuilder:validation:Pattern=`subnet-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`
}

// A SecurityGroupSelectorTerm finds security groups.
type SecurityGroupSelectorTerm struct {
	// Tags that the group carries.
	// +optional
	Tags Tags `json:"tags,omitempty"`

	// ID of the group.
	// +kubebuilder:validation:Pattern=`sg-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`

	// Name of the group, which is not its Name tag.
	// +optional
	Name string `json:"name,omitempty"`
}

// A CapacityReservationSelectorTerm finds capacity reservations.
type CapacityReservationSelectorTerm struct {
	// Tags that the reservation carries.
	// +optional
	Tags Tags `json:"tags,omitempty"`

	// ID of the reservation.
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`

	// OwnerID is the account that owns the reservation.
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +optional
	OwnerID string `json:"ownerID,omitempty"`

	// InstanceMatchCriteria says whether the reservation takes any fitting machine or only those that ask for it.
	// +kubebuilder:validation:Enum={open,targeted}
	// +optional
	InstanceMatchCriteria string `json:"instanceMatchCriteria,omitempty"`
}

// A PlacementGroupSelector names a placement group.
type PlacementGroupSelector struct {
	// Name of the group.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Name string `json:"name,omitempty"`

	// ID of the group.
	// +kubebuilder:validation:Pattern=`^pg-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
}

// An AMISelectorTerm finds images.
type AMISelectorTerm struct {
	// Alias names images that EKS publishes: a family and a version, as in al2023@latest or al2023@v20250505.
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]+@[^@]+$')",message="an alias is a family and a version, family@version"
	// +kubebuilder:validation:XValidation:rule="self.split('@')[0] in ['al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025']",message="the family of an alias is one of al2, al2023, bottlerocket, windows2019, windows2022 and windows2025"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('windows') || self.split('@')[1] == 'latest'",message="the version of a Windows alias can only be latest"
	// +optional
	Alias string `json:"alias,omitempty"`

	// Tags that the image carries.
	// +optional
	Tags Tags `json:"tags,omitempty"`

	// ID of the image.
	// +kubebuilder:validation:Pattern=`ami-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`

	// Name of the image; * stands for any text.
	// +optional
	Name string `json:"name,omitempty"`

	// Owner of the image: an account, self, or an alias such as amazon.
	// +optional
	Owner string `json:"owner,omitempty"`

	// SSMParameter is the name or ARN of an SSM parameter that holds the ID of the image.
	// +optional
	SSMParameter string `json:"ssmParameter,omitempty"`
}
