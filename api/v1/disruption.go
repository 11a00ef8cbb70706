package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Disruption says when the machines of a pool may be removed or replaced.
type Disruption struct {
	// ConsolidateAfter is how long a node must have seen no pod come or go before
	// it is considered, or Never.
	// +kubebuilder:default="0s"
	// +optional
	ConsolidateAfter NillableDuration `json:"consolidateAfter"`

	// ConsolidationPolicy says which nodes may be removed to save money.
	// +kubebuilder:default=WhenEmptyOrUnderutilized
	// +optional
	ConsolidationPolicy ConsolidationPolicy `json:"consolidationPolicy,omitempty"`

	// Budgets bound how many nodes may be disrupted at the same time. When several
	// are active the smallest counts; an empty list means no bound.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:default={{nodes: "10%"}}
	// +optional
	Budgets []Budget `json:"budgets,omitzero"`
}

// ConsolidationPolicy says which nodes may be removed to save money.
// +kubebuilder:validation:Enum=WhenEmpty;WhenEmptyOrUnderutilized;Balanced
type ConsolidationPolicy string

const (
	// WhenEmpty removes only nodes whose pods cost nothing to move.
	WhenEmpty ConsolidationPolicy = "WhenEmpty"
	// WhenEmptyOrUnderutilized removes any node whose pods fit elsewhere for less.
	WhenEmptyOrUnderutilized ConsolidationPolicy = "WhenEmptyOrUnderutilized"
	// Balanced does so only if the saving is worth the disruption.
	Balanced ConsolidationPolicy = "Balanced"
)

// A Budget bounds how many nodes of a pool may be disrupted at the same time.
// +kubebuilder:validation:XValidation:rule="has(self.schedule) == has(self.duration)",message="schedule and duration must be set together"
type Budget struct {
	// Reasons are the disruptions this budget bounds; none means all.
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Reasons []DisruptionReason `json:"reasons,omitempty"`

	// Nodes is a number of nodes, or a percentage of the pool's nodes, rounded up.
	// +kubebuilder:validation:Pattern=`^((100|[0-9]{1,2})%|[0-9]+)$`
	// +kubebuilder:default="10%"
	// +required
	Nodes string `json:"nodes"`

	// Schedule is when the budget becomes active, as a cron line or a macro such
	// as @daily, in UTC. Without it the budget is always active.
	// +kubebuilder:validation:Pattern=`^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$`
	// +optional
	Schedule *string `json:"schedule,omitempty"`

	// Duration is how long the budget stays active after each start, in hours and
	// minutes.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$`
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
}

// DisruptionReason is why a node is removed or replaced.
// +kubebuilder:validation:Enum=Underutilized;Empty;Drifted;Unhealthy
type DisruptionReason string

const (
	// Underutilized nodes can be had for less.
	Underutilized DisruptionReason = "Underutilized"
	// Empty nodes run nothing that costs anything to move.
	Empty DisruptionReason = "Empty"
	// Drifted nodes differ from what their pool or node class asks for now.
	Drifted DisruptionReason = "Drifted"
	// Unhealthy nodes are repaired.
	Unhealthy DisruptionReason = "Unhealthy"
)

// Expired nodes are near the end of their lives. Budgets cannot name this reason: only budgets without reasons apply.
const Expired DisruptionReason = "Expired"

// DisruptionReasons returns all reasons that a budget may name.
func DisruptionReasons() []DisruptionReason {
	return []DisruptionReason{Underutilized, Empty, Drifted, Unhealthy}
}
