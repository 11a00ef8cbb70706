package schedulingv1alpha3

import (
	"slices"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGroup is pods that kube-scheduler looks at together: those of its namespace whose spec.schedulingGroup names it.
//
// +kubebuilder:object:root=true
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PodGroupSpec `json:"spec"`
}

// PodGroupSpec says how the pods are scheduled.
type PodGroupSpec struct {
	SchedulingPolicy      SchedulingPolicy       `json:"schedulingPolicy"`
	SchedulingConstraints *SchedulingConstraints `json:"schedulingConstraints,omitempty"`
	DisruptionMode        *DisruptionMode        `json:"disruptionMode,omitempty"`
	// Priority, if it is set, counts instead of the pods' own.
	Priority *int32 `json:"priority,omitempty"`
}

// SchedulingPolicy has one of its fields set: with Basic the pods are scheduled one by one, with Gang together.
type SchedulingPolicy struct {
	Basic *BasicSchedulingPolicy `json:"basic,omitempty"`
	Gang  *GangSchedulingPolicy  `json:"gang,omitempty"`
}

// BasicSchedulingPolicy asks for nothing.
type BasicSchedulingPolicy struct{}

// GangSchedulingPolicy has no pod start before MinCount of them can.
type GangSchedulingPolicy struct {
	MinCount int32 `json:"minCount"`
}

// SchedulingConstraints are about all pods of the group together.
type SchedulingConstraints struct {
	// Topology lists labels in whose value the nodes of all pods agree; Kubernetes allows one.
	Topology []TopologyConstraint `json:"topology,omitempty"`
}

// TopologyConstraint is the key of a label of nodes.
type TopologyConstraint struct {
	Key string `json:"key"`
}

// DisruptionMode says whether pods may be evicted one by one, the default, or only all together.
type DisruptionMode struct {
	Single *SingleDisruptionMode `json:"single,omitempty"`
	All    *AllDisruptionMode    `json:"all,omitempty"`
}

// SingleDisruptionMode allows each pod to be evicted alone.
type SingleDisruptionMode struct{}

// AllDisruptionMode allows all pods to be evicted together.
type AllDisruptionMode struct{}

// PodGroupList is a list of PodGroups.
//
// +kubebuilder:object:root=true
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodGroup `json:"items"`
}

// FromV1Alpha2 converts a PodGroup of v1alpha2, which Kubernetes 1.36 serves.
func FromV1Alpha2(o *schedulingv1alpha2.PodGroup) *PodGroup {
	out := &PodGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: "PodGroup"},
		ObjectMeta: o.ObjectMeta,
		Spec:       PodGroupSpec{Priority: o.Spec.Priority},
	}
	if gang := o.Spec.SchedulingPolicy.Gang; gang != nil {
		out.Spec.SchedulingPolicy.Gang = &GangSchedulingPolicy{MinCount: gang.MinCount}
	} else {
		out.Spec.SchedulingPolicy.Basic = &BasicSchedulingPolicy{}
	}
	if c := o.Spec.SchedulingConstraints; c != nil {
		out.Spec.SchedulingConstraints = &SchedulingConstraints{}
		for _, t := range c.Topology {
			out.Spec.SchedulingConstraints.Topology = append(out.Spec.SchedulingConstraints.Topology, TopologyConstraint{Key: t.Key})
		}
	}
	if mode := o.Spec.DisruptionMode; mode != nil && *mode == schedulingv1alpha2.DisruptionModePodGroup {
		out.Spec.DisruptionMode = &DisruptionMode{All: &AllDisruptionMode{}}
	}
	return out
}

// MinCount is how many pods have to start together: 1 where they start one by one.
func (o *PodGroup) MinCount() int {
	if gang := o.Spec.SchedulingPolicy.Gang; gang != nil {
		return int(max(gang.MinCount, 1))
	}
	return 1
}

// TopologyKey is the label in whose value the nodes of all pods agree, empty for none.
func (o *PodGroup) TopologyKey() string {
	if c := o.Spec.SchedulingConstraints; c != nil {
		if i := slices.IndexFunc(c.Topology, func(t TopologyConstraint) bool { return t.Key != "" }); i >= 0 {
			return c.Topology[i].Key
		}
	}
	return ""
}

// MovesWhole reports whether its pods may be evicted only all together.
func (o *PodGroup) MovesWhole() bool {
	return o.Spec.DisruptionMode != nil && o.Spec.DisruptionMode.All != nil
}
