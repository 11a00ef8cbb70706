package kwokv1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Labels that simulated machines carry.
const (
	InstanceSizeLabelKey   = "karpenter.kwok.sh/instance-size"
	InstanceFamilyLabelKey = "karpenter.kwok.sh/instance-family"
	InstanceCPULabelKey    = "karpenter.kwok.sh/instance-cpu"
	InstanceMemoryLabelKey = "karpenter.kwok.sh/instance-memory"
	NodeClassLabelKey      = "karpenter.kwok.sh/kwoknodeclass"
)

// A KWOKNodeClass says how simulated machines behave. No controller looks after
// it: the API server makes every one Ready.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kwoknodeclasses,scope=Cluster,categories=karpenter,shortName={kwoknc,kwokncs}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether machines can be made from it"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type KWOKNodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is how simulated machines behave.
	// +optional
	Spec KWOKNodeClassSpec `json:"spec,omitempty"`

	// Status is Ready from the start.
	// +kubebuilder:default={conditions: {{type: "Ready", status: "True", reason: "Ready", message: "", lastTransitionTime: "2024-01-01T01:01:01Z"}}}
	// +optional
	Status KWOKNodeClassStatus `json:"status,omitzero"`
}

// KWOKNodeClassList is a list of KWOKNodeClasses.
// +kubebuilder:object:root=true
type KWOKNodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KWOKNodeClass `json:"items"`
}

// KWOKNodeClassSpec is how simulated machines behave.
type KWOKNodeClassSpec struct {
	// NodeRegistrationDelay is how long a machine takes to join the cluster.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +optional
	NodeRegistrationDelay *metav1.Duration `json:"nodeRegistrationDelay,omitempty"`
}

// KWOKNodeClassStatus says whether machines can be made.
type KWOKNodeClassStatus struct {
	// Conditions say whether machines can be made.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GetConditions are the conditions of the node class.
func (c *KWOKNodeClass) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the node class.
func (c *KWOKNodeClass) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// DependentConditions is empty: a simulated cloud needs nothing looked up.
func (c *KWOKNodeClass) DependentConditions() []string { return nil }
