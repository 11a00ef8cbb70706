package contract

import (
	"cmp"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Versions are the readable versions of the API, the preferred one first.
var Versions = []string{"v1beta2", "v1beta1"}

// AddToScheme adds the kinds of one version, and autoscaling/v1, in which replicas are written.
func AddToScheme(s *runtime.Scheme, version string) {
	s.AddKnownTypes(autoscalingv1.SchemeGroupVersion, &autoscalingv1.Scale{})
	gv := schema.GroupVersion{Group: Group, Version: version}
	s.AddKnownTypes(gv, &Cluster{}, &ClusterList{}, &MachineDeployment{}, &MachineDeploymentList{}, &MachineSet{}, &MachineSetList{}, &Machine{}, &MachineList{})
	metav1.AddToGroupVersion(s, gv)
}

// Cluster is a workload cluster.
//
// +kubebuilder:object:root=true
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterSpec `json:"spec,omitempty"`
}

// ClusterSpec holds the fields of a Cluster's spec that the provider reads.
type ClusterSpec struct {
	Paused   bool      `json:"paused,omitempty"`
	Topology *Topology `json:"topology,omitempty"`
}

// Topology describes the objects that Cluster API makes from a ClusterClass.
type Topology struct {
	Workers TopologyWorkers `json:"workers,omitempty"`
}

// TopologyWorkers are the MachineDeployments of a topology.
type TopologyWorkers struct {
	MachineDeployments []TopologyMachineDeployment `json:"machineDeployments,omitempty"`
}

// TopologyMachineDeployment is a MachineDeployment of a topology. If Replicas is set, Cluster API resets the replicas of the
// MachineDeployment to it.
type TopologyMachineDeployment struct {
	Name     string `json:"name"`
	Replicas *int32 `json:"replicas,omitempty"`
}

// ClusterList is a list of Clusters.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}

// MachineDeployment is a number of equal machines.
//
// +kubebuilder:object:root=true
type MachineDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MachineDeploymentSpec   `json:"spec,omitempty"`
	Status MachineDeploymentStatus `json:"status,omitempty"`
}

// MachineDeploymentSpec holds the fields of a MachineDeployment's spec that the provider reads.
type MachineDeploymentSpec struct {
	ClusterName string          `json:"clusterName,omitempty"`
	Replicas    *int32          `json:"replicas,omitempty"`
	Paused      bool            `json:"paused,omitempty"`
	Template    MachineTemplate `json:"template,omitempty"`
	// Strategy is v1beta1's field, Rollout that of v1beta2.
	Strategy *Strategy `json:"strategy,omitempty"`
	Rollout  *Rollout  `json:"rollout,omitempty"`
}

// Rollout describes how machines are replaced after a change of their template.
type Rollout struct {
	Strategy Strategy `json:"strategy,omitempty"`
}

// Strategy is RollingUpdate or OnDelete.
type Strategy struct {
	Type string `json:"type,omitempty"`
}

// MachineTemplate is the template of machines.
type MachineTemplate struct {
	Metadata TemplateMetadata `json:"metadata,omitempty"`
	Spec     MachineSpec      `json:"spec,omitempty"`
}

// TemplateMetadata is copied to Machines.
type TemplateMetadata struct {
	Labels map[string]string `json:"labels,omitempty"`
}

// MachineDeploymentStatus holds the fields of a MachineDeployment's status that the provider reads.
type MachineDeploymentStatus struct {
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Replicas           *int32 `json:"replicas,omitempty"`
}

// OnDelete reports whether a new template applies to new machines only.
func (d *MachineDeployment) OnDelete() bool {
	return d.Spec.Strategy != nil && d.Spec.Strategy.Type == "OnDelete" || d.Spec.Rollout != nil && d.Spec.Rollout.Strategy.Type == "OnDelete"
}

// IsNewest reports whether a MachineSet of the MachineDeployment has the current template.
func (d *MachineDeployment) IsNewest(set *MachineSet) bool {
	return set.Annotations[RevisionAnnotation] == d.Annotations[RevisionAnnotation]
}

// MachineDeploymentList is a list of MachineDeployments.
//
// +kubebuilder:object:root=true
type MachineDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineDeployment `json:"items"`
}

// MachineSet is the group of a MachineDeployment's machines that were made from one version of its template.
//
// +kubebuilder:object:root=true
type MachineSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MachineSetSpec   `json:"spec,omitempty"`
	Status MachineSetStatus `json:"status,omitempty"`
}

// MachineSetSpec holds the fields of a MachineSet's spec that the provider reads.
type MachineSetSpec struct {
	Replicas *int32 `json:"replicas,omitempty"`
}

// MachineSetStatus holds the fields of a MachineSet's status that the provider reads.
type MachineSetStatus struct {
	Replicas   *int32        `json:"replicas,omitempty"`
	Conditions Conditions    `json:"conditions,omitempty"`
	V1Beta2    V1Beta2Status `json:"v1beta2,omitempty"`
}

// MachineSetList is a list of MachineSets.
//
// +kubebuilder:object:root=true
type MachineSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineSet `json:"items"`
}

// Machine is one machine.
//
// +kubebuilder:object:root=true
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MachineSpec   `json:"spec,omitempty"`
	Status MachineStatus `json:"status,omitempty"`
}

// MachineSpec holds the fields of a Machine, or of a machine template, that the provider reads.
type MachineSpec struct {
	ClusterName       string    `json:"clusterName,omitempty"`
	ProviderID        string    `json:"providerID,omitempty"`
	FailureDomain     string    `json:"failureDomain,omitempty"`
	Version           string    `json:"version,omitempty"`
	InfrastructureRef Reference `json:"infrastructureRef,omitempty"`
	Taints            []Taint   `json:"taints,omitempty"`
}

// Reference names another object: by apiVersion in v1beta1, by apiGroup in v1beta2.
type Reference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	APIGroup   string `json:"apiGroup,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
}

// GroupKind returns the group and the kind of the object that the reference names.
func (r Reference) GroupKind() schema.GroupKind {
	gv, _ := schema.ParseGroupVersion(r.APIVersion)
	return schema.GroupKind{Group: cmp.Or(r.APIGroup, gv.Group), Kind: r.Kind}
}

// Taint is a taint that Cluster API puts on nodes.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
	// Propagation is Always or OnInitialization.
	Propagation string `json:"propagation,omitempty"`
}

// MachineStatus holds the fields of a Machine's status that the provider reads.
type MachineStatus struct {
	Phase         string        `json:"phase,omitempty"`
	FailureDomain string        `json:"failureDomain,omitempty"`
	NodeRef       NodeRef       `json:"nodeRef,omitempty"`
	Conditions    Conditions    `json:"conditions,omitempty"`
	V1Beta2       V1Beta2Status `json:"v1beta2,omitempty"`
	FailureReason string        `json:"failureReason,omitempty"`
	// FailureMessage is the reason why the machine cannot be made.
	FailureMessage string           `json:"failureMessage,omitempty"`
	Deprecated     DeprecatedStatus `json:"deprecated,omitempty"`
}

// NodeRef names the machine's Node.
type NodeRef struct {
	Name string `json:"name,omitempty"`
}

// DeprecatedStatus is the field of v1beta2 that holds fields of v1beta1.
type DeprecatedStatus struct {
	V1Beta1 FailureStatus `json:"v1beta1,omitempty"`
}

// FailureStatus is the reason why a machine cannot be made.
type FailureStatus struct {
	FailureReason  string `json:"failureReason,omitempty"`
	FailureMessage string `json:"failureMessage,omitempty"`
}

// Failure returns the reason why the machine can never be made, "" if it can.
func (m *Machine) Failure() string {
	old := m.Status.Deprecated.V1Beta1
	text := cmp.Or(m.Status.FailureMessage, old.FailureMessage, m.Status.FailureReason, old.FailureReason)
	if text == "" && m.Status.Phase == "Failed" {
		text = "its phase is Failed"
	}
	return text
}

// Remediated reports whether a MachineHealthCheck has found the machine broken and its MachineSet is about to replace it.
func (m *Machine) Remediated() bool {
	owner, healthy := m.Condition("OwnerRemediated"), m.Condition("HealthCheckSucceeded")
	return owner != nil && owner.Status == "False" && (healthy == nil || healthy.Status != "True")
}

// Tended reports whether a MachineHealthCheck has found the machine broken, or whether an annotation forbids MachineHealthChecks to replace
// it.
func (m *Machine) Tended() bool {
	_, skipped := m.Annotations[SkipRemediation]
	healthy := m.Condition("HealthCheckSucceeded")
	return skipped || healthy != nil && healthy.Status == "False"
}

// Condition returns a condition of v1beta2.
func (m *Machine) Condition(kind string) *Condition {
	return condition(m.Status.V1Beta2.Conditions, m.Status.Conditions, kind)
}

// Condition returns a condition of v1beta2.
func (s *MachineSet) Condition(kind string) *Condition {
	return condition(s.Status.V1Beta2.Conditions, s.Status.Conditions, kind)
}

func condition(first, second Conditions, kind string) *Condition {
	for _, list := range []Conditions{first, second} {
		if i := slices.IndexFunc(list, func(c Condition) bool { return c.Type == kind }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// MachineList is a list of Machines.
//
// +kubebuilder:object:root=true
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Machine `json:"items"`
}

// Conditions are the conditions of an object.
type Conditions []Condition

// V1Beta2Status is the field of v1beta1 that holds the conditions of v1beta2.
type V1Beta2Status struct {
	Conditions Conditions `json:"conditions,omitempty"`
}

// Condition holds the fields of a condition that both versions have.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}
