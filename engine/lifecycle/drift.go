package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

const (
	// typeDriftAge is the age of a claim from which a type that is missing in the catalog is drift, because catalogs and labels may be incomplete at
	// first.
	typeDriftAge = time.Hour
	// driftCheck is the time between two looks for drift if only the catalog changes.
	driftCheck = 5 * time.Minute
	// DriftPatience is the time after which a replacement that is not ready stops further replacements in its pool.
	DriftPatience = 10 * time.Minute
)

// Reasons of the condition Drifted, beside those of traits.
const (
	PoolDrifted          = "NodePoolDrifted"
	RequirementsDrifted  = "RequirementsDrifted"
	InstanceTypeNotFound = "InstanceTypeNotFound"
)

// DriftOf returns how the claim's machine differs from its pool and class; the reason is empty if it does not. The class may be nil: then it is
// unknown and causes no drift.
func DriftOf(claim *v1.NodeClaim, pool *v1.NodePool, class *engine.Class, now time.Time) (reason, message string) {
	if hashDrifted(claim, pool) {
		return PoolDrifted, "the pool's template has changed since the machine was started"
	}
	if class != nil && (class.Problem != "" && len(class.InstanceTypes) == 0) {
		class = nil
	}
	if message = requirementsDrift(claim, pool, class); message != "" {
		return RequirementsDrifted, message
	}
	if class == nil {
		return "", ""
	}
	if !class.Assumed && now.Sub(claim.CreationTimestamp.Time) > typeDriftAge && len(class.InstanceTypes) > 0 {
		if message = typeDrift(claim, class); message != "" {
			return InstanceTypeNotFound, message
		}
	}
	return traitDrift(claim, class)
}

// hashDrifted reports whether the template hashes of claim and pool differ. A missing or incomparable hash (another version) is no drift.
func hashDrifted(claim *v1.NodeClaim, pool *v1.NodePool) bool {
	return HashComparable(claim, pool) && claim.Annotations[v1.NodePoolHashAnnotationKey] != pool.Annotations[v1.NodePoolHashAnnotationKey]
}

func HashComparable(claim *v1.NodeClaim, pool *v1.NodePool) bool {
	version := claim.Annotations[v1.NodePoolHashVersionAnnotationKey]
	return claim.Annotations[v1.NodePoolHashAnnotationKey] != "" && pool.Annotations[v1.NodePoolHashAnnotationKey] != "" &&
		version != "" && version == pool.Annotations[v1.NodePoolHashVersionAnnotationKey]
}

// requirementsDrift returns the first of the pool's requirements that the machine's labels do not meet. If the claim lacks a label, it uses the label
// of its instance type.
func requirementsDrift(claim *v1.NodeClaim, pool *v1.NodePool, class *engine.Class) string {
	kind := typeIn(class, claim.Labels[corev1.LabelInstanceTypeStable])
	for _, r := range pool.Spec.Template.Spec.Requirements {
		e := kube.PoolExpression(r)
		value, there := claim.Labels[e.Key]
		if !there && kind != nil && len(kind.Labels[e.Key]) == 1 {
			value, there = kind.Labels[e.Key][0], true
		}
		if !e.Admits(value, there) {
			have := "does not carry it"
			if there {
				have = "has " + value
			}
			return fmt.Sprintf("the pool requires %s %s, the machine %s", e.Key, requirementWords(r), have)
		}
	}
	return ""
}

func requirementWords(r v1.Requirement) string {
	return strings.TrimSpace(string(r.Operator) + " " + strings.Join(r.Values, ", "))
}

func typeIn(class *engine.Class, name string) *engine.InstanceType {
	if class == nil {
		return nil
	}
	for i := range class.InstanceTypes {
		if class.InstanceTypes[i].Name == name {
			return &class.InstanceTypes[i]
		}
	}
	return nil
}

// typeDrift describes that the catalog no longer has the machine's type, zone and capacity type, sold out or not. A reserved machine may become
// an on-demand one.
func typeDrift(claim *v1.NodeClaim, class *engine.Class) string {
	name := claim.Labels[corev1.LabelInstanceTypeStable]
	kind := typeIn(class, name)
	switch {
	case name == "":
		return "the claim does not say which instance type the machine has"
	case kind == nil:
		return "instance type " + name + " is not in the catalog any more"
	}
	zone, capacity := claim.Labels[corev1.LabelTopologyZone], claim.Labels[v1.CapacityTypeLabelKey]
	for i := range kind.Offerings {
		o := &kind.Offerings[i]
		same := o.CapacityType == capacity || capacity == "" || capacity == v1.CapacityTypeReserved && o.CapacityType == v1.CapacityTypeOnDemand
		if same && (zone == "" || o.Zone == zone) {
			return ""
		}
	}
	return fmt.Sprintf("instance type %s is not offered any more in %s as %s", name, zone, capacity)
}

// traitDrift finds the first trait whose value the class no longer accepts.
func traitDrift(claim *v1.NodeClaim, class *engine.Class) (reason, message string) {
	for _, t := range class.Traits {
		if _, meant := slices.BinarySearch(t.Types, claim.Labels[corev1.LabelInstanceTypeStable]); len(t.Types) > 0 && !meant {
			continue
		}
		if value, there := kube.TraitOf(claim, t.Key); there && len(t.Accepts) > 0 && !slices.Contains(t.Accepts, value) {
			return cmp.Or(t.Reason, "NodeClassDrift"), fmt.Sprintf("the machine's %s is %s, the node class asks for %s", t.Key, value, engine.AtMost(t.Accepts, 3))
		}
	}
	return "", ""
}

// observeDrift updates the condition Drifted of a launched claim.
func observeDrift(l Life, claim *v1.NodeClaim, step *Step) {
	if l.Pool == nil {
		return
	}
	if l.Class != nil {
		step.by(driftCheck)
	}
	reason, message := DriftOf(claim, l.Pool, l.Class, l.Now)
	if reason == "" {
		if !l.classUnknown(claim) {
			v1.RemoveCondition(claim, v1.ConditionDrifted, l.Now)
		}
		return
	}
	kube.SetCondition(claim, v1.ConditionDrifted, metav1.ConditionTrue, reason, message, l.Now)
}

// classUnknown reports whether the claim drifted from its class, and the class is unknown now.
func (l Life) classUnknown(claim *v1.NodeClaim) bool {
	c := v1.GetCondition(claim, v1.ConditionDrifted)
	return l.Class == nil && c != nil && c.Reason != PoolDrifted && c.Reason != RequirementsDrifted
}
