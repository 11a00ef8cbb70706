package awsv1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EC2NodeClassStatus is what was found in the account.
type EC2NodeClassStatus struct {
	// Subnets that machines are started in, the one with most free addresses first.
	// +optional
	Subnets []Subnet `json:"subnets,omitempty"`

	// SecurityGroups that machines get, ordered by ID.
	// +optional
	SecurityGroups []SecurityGroup `json:"securityGroups,omitempty"`

	// CapacityReservations that machines may use, ordered by ID.
	// +optional
	CapacityReservations []CapacityReservation `json:"capacityReservations,omitempty"`

	// AMIs that machines are started from, the newest first.
	// +optional
	AMIs []AMI `json:"amis,omitempty"`

	// InstanceProfile is the instance profile of the machines.
	// +optional
	InstanceProfile string `json:"instanceProfile,omitempty"`

	// Conditions say whether machines can be made, and what is missing.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// A Subnet of the account.
type Subnet struct {
	// ID of the subnet.
	// +required
	ID string `json:"id"`
	// Zone that it is in.
	// +required
	Zone string `json:"zone"`
	// ZoneID is the name of the zone that is the same in every account.
	// +optional
	ZoneID string `json:"zoneID,omitempty"`
}

// A SecurityGroup of the account.
type SecurityGroup struct {
	// ID of the group.
	// +required
	ID string `json:"id"`
	// Name of the group.
	// +optional
	Name string `json:"name,omitempty"`
}

// Types and states of capacity reservations.
const (
	ReservationDefault  = "default"
	ReservationBlock    = "capacity-block"
	ReservationActive   = "active"
	ReservationExpiring = "expiring"
)

// A CapacityReservation of this account, or one that is shared with it.
type CapacityReservation struct {
	// AvailabilityZone of the reserved machines.
	// +required
	AvailabilityZone string `json:"availabilityZone"`
	// EndTime is when it ends, if it does.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// ID of the reservation.
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +required
	ID string `json:"id"`
	// InstanceMatchCriteria is open or targeted.
	// +kubebuilder:validation:Enum={open,targeted}
	// +required
	InstanceMatchCriteria string `json:"instanceMatchCriteria"`
	// InstanceType of the reserved machines.
	// +required
	InstanceType string `json:"instanceType"`
	// OwnerID is the account that owns it.
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +required
	OwnerID string `json:"ownerID"`
	// ReservationType is default or capacity-block.
	// +kubebuilder:default=default
	// +kubebuilder:validation:Enum={default,capacity-block}
	// +optional
	ReservationType string `json:"reservationType,omitempty"`
	// Interruptible reservations can be taken back by their owner.
	// +optional
	Interruptible bool `json:"interruptible,omitempty"`
	// State is expiring when machines in it are about to be taken away.
	// +kubebuilder:default=active
	// +kubebuilder:validation:Enum={active,expiring}
	// +optional
	State string `json:"state,omitempty"`
}

// An AMI is an image that machines are started from.
type AMI struct {
	// ID of the image.
	// +required
	ID string `json:"id"`
	// Deprecated images work, but their owner advises against them.
	// +optional
	Deprecated bool `json:"deprecated,omitempty"`
	// Name of the image.
	// +optional
	Name string `json:"name,omitempty"`
	// Requirements that an instance type must meet to be started from the image.
	// +required
	Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
}

// Conditions of an EC2NodeClass. Ready follows from those of DependentConditions.
const (
	ConditionAMIsReady                 = "AMIsReady"
	ConditionSubnetsReady              = "SubnetsReady"
	ConditionSecurityGroupsReady       = "SecurityGroupsReady"
	ConditionInstanceProfileReady      = "InstanceProfileReady"
	ConditionCapacityReservationsReady = "CapacityReservationsReady"
	ConditionPlacementGroupReady       = "PlacementGroupReady"
	ConditionValidationSucceeded       = "ValidationSucceeded"
)

// Reasons of conditions that are not True.
const (
	ReasonAMINotFound                    = "AMINotFound"
	ReasonUnsupportedAlias               = "UnsupportedAlias"
	ReasonSubnetsNotFound                = "SubnetsNotFound"
	ReasonSecurityGroupsNotFound         = "SecurityGroupsNotFound"
	ReasonPlacementGroupNotFound         = "PlacementGroupNotFound"
	ReasonPlacementGroupResolutionFailed = "PlacementGroupResolutionFailed"
	ReasonClusterCIDRResolutionFailed    = "ClusterCIDRResolutionFailed"
	ReasonInvalidSharing                 = "InvalidNVIDIAConsumableCapacity"
	ReasonInvalidKubeletConfiguration    = "InvalidKubeletConfiguration"
	ReasonKubeletExpressionsDisabled     = "KubeletExpressionsDisabled"
	ReasonKubeletExpressionInvalid       = "KubeletExpressionInvalid"
	ReasonKubeletEvaluationFailed        = "KubeletExpressionEvaluationFailed"
	ReasonUnsupportedKubelet             = "UnsupportedKubeletConfiguration"
	ReasonDependenciesNotReady           = "DependenciesNotReady"
	ReasonTagValidationFailed            = "TagValidationFailed"
	ReasonUserDataTooLarge               = "UserDataSizeLimitExceeded"
	ReasonCreateLaunchTemplateAuthFailed = "CreateLaunchTemplateAuthCheckFailed"
	ReasonCreateFleetAuthFailed          = "CreateFleetAuthCheckFailed"
	ReasonRunInstancesAuthFailed         = "RunInstancesAuthCheckFailed"
	ReasonInstanceProfileNotFound        = "InstanceProfileNotFound"
	// ReasonRoleNotFound is ours: the role does not exist.
	ReasonRoleNotFound = "RoleNotFound"
	// ReasonResolutionFailed is ours: the account could not be asked, the message says why.
	ReasonResolutionFailed = "ResolutionFailed"
)

// GetConditions are the conditions of the class.
func (c *EC2NodeClass) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the class.
func (c *EC2NodeClass) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }

// DependentConditions must all be True for the class to be Ready.
func (c *EC2NodeClass) DependentConditions() []string {
	return []string{
		ConditionAMIsReady, ConditionSubnetsReady, ConditionSecurityGroupsReady, ConditionInstanceProfileReady,
		ConditionValidationSucceeded, ConditionPlacementGroupReady, ConditionCapacityReservationsReady,
	}
}
