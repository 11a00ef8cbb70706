package v1

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A NodeClassReference names the provider's object that says how machines are
// made: images, networks, disks.
type NodeClassReference struct {
	// Kind of the node class.
	// +kubebuilder:validation:MinLength=1
	// +required
	Kind string `json:"kind"`

	// Name of the node class.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`

	// Group is the API group of the node class, without a version.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:Pattern=`^[^/]*$`
	// +required
	Group string `json:"group"`
}

// GroupKind is the kind of the node class.
func (r *NodeClassReference) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: r.Group, Kind: r.Kind}
}

// LabelKey is the label that carries the node class's name on claims and nodes.
func (r *NodeClassReference) LabelKey() string {
	return r.Group + "/" + strings.ToLower(r.Kind)
}
