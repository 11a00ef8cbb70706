package kube

import (
	"cmp"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/requirement"
)

// Commitment is a commitment with its requirements as expressions.
type Commitment struct {
	*engine.Commitment
	asked []requirement.Expression
}

// CommitmentsOf returns the commitments that have not ended, by name.
func CommitmentsOf(s *engine.Snapshot) []Commitment {
	var out []Commitment
	for i := range s.Commitments {
		c := Commitment{Commitment: &s.Commitments[i]}
		if c.HasEnded(s.Now) {
			continue
		}
		for _, r := range c.Requirements {
			c.asked = append(c.asked, PoolExpression(v1.Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values}))
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Commitment) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Covers reports whether the commitment pays for machines of the offering; label returns a machine's value of a label, and whether it has one.
func (c *Commitment) Covers(o *engine.Offering, label func(key string) (string, bool)) bool {
	if o.CapacityType != v1.CapacityTypeOnDemand || o.Reservation != "" {
		return false
	}
	return !slices.ContainsFunc(c.asked, func(e requirement.Expression) bool {
		value, there := label(e.Key)
		return !e.Admits(value, there)
	})
}

// MayCover reports whether the commitment pays for some of the offering's machines, because a type may have several values of a label.
func (c *Commitment) MayCover(t *engine.InstanceType, o *engine.Offering) bool {
	wanted := map[string]string{} // for labels with several values, the first that meets the requirements
	for _, e := range c.asked {
		if values := t.Labels[e.Key]; len(values) > 1 {
			if i := slices.IndexFunc(values, func(value string) bool { return e.Admits(value, true) }); i >= 0 {
				wanted[e.Key] = values[i]
			}
		}
	}
	return c.Covers(o, func(key string) (string, bool) { return MachineLabel(wanted, t, o, key) })
}

// Same reports whether both commitments pay the same part for the same machines; their available amounts may differ.
func (c *Commitment) Same(other Commitment) bool {
	a, b := *c.Commitment, *other.Commitment
	a.Machines, b.Machines = min(a.Machines, 1), min(b.Machines, 1)
	a.AmountPerHour, a.UsedElsewhere, a.End = b.AmountPerHour, b.UsedElsewhere, b.End
	return reflect.DeepEqual(a, b)
}

// MachineLabel returns the value of a label on a machine with these labels. If they lack it, the value follows from the type and offering,
// because nodes of other autoscalers have few labels.
func MachineLabel(labels map[string]string, t *engine.InstanceType, o *engine.Offering, key string) (string, bool) {
	if value, there := labels[key]; there {
		return value, true
	}
	switch key {
	case corev1.LabelInstanceTypeStable:
		return t.Name, true
	case corev1.LabelTopologyZone:
		return o.Zone, true
	}
	if value, there := o.Labels[key]; there {
		return value, true
	}
	if values := t.Labels[key]; len(values) > 0 {
		return values[0], true
	}
	return "", false
}
