package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Condition types. Ready is the root that the others feed where a kind says so.
const (
	ConditionReady = "Ready"

	// Of a NodePool.
	ConditionValidationSucceeded     = "ValidationSucceeded"
	ConditionNodeClassReady          = "NodeClassReady"
	ConditionNodeRegistrationHealthy = "NodeRegistrationHealthy"
	ConditionNotSupported            = "NotSupported" // the pool asks for something this program does not do
	ConditionPaused                  = "Paused"       // no voluntary disruption
	ConditionAnnotationsRead         = "AnnotationsRead"
	ConditionLaunchesBackedOff       = "LaunchesBackedOff"   // machines did not accept the pods for which they were started
	ConditionReplacementsFailing     = "ReplacementsFailing" // nodes are not replaced for a while, because replacements failed

	// Of a NodeClaim.
	ConditionLaunched             = "Launched"
	ConditionRegistered           = "Registered"
	ConditionInitialized          = "Initialized"
	ConditionConsolidatable       = "Consolidatable"
	ConditionDrifted              = "Drifted"
	ConditionDisruptionReason     = "DisruptionReason"
	ConditionDrained              = "Drained"
	ConditionVolumesDetached      = "VolumesDetached"
	ConditionInstanceTerminating  = "InstanceTerminating"
	ConditionConsistentStateFound = "ConsistentStateFound"
	ConditionRebooting            = "Rebooting"
)

// Reasons that the functions for conditions set themselves.
const (
	ReasonAwaitingReconciliation = "AwaitingReconciliation"
	ReasonUnhealthyDependents    = "UnhealthyDependents"
	ReasonReconcilingDependents  = "ReconcilingDependents"
)

// GetConditions returns the conditions of the pool.
func (p *NodePool) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions replaces the conditions of the pool.
func (p *NodePool) SetConditions(c []metav1.Condition) { p.Status.Conditions = c }

// DependentConditions returns the conditions that must be True for the pool to be Ready.
func (p *NodePool) DependentConditions() []string {
	return []string{ConditionValidationSucceeded, ConditionNodeClassReady}
}

// GetConditions returns the conditions of the claim.
func (c *NodeClaim) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the claim.
func (c *NodeClaim) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }

// DependentConditions returns the conditions that must be True for the claim to be Ready.
func (c *NodeClaim) DependentConditions() []string {
	return []string{ConditionLaunched, ConditionRegistered, ConditionInitialized}
}
