package simulator

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// usable are the instance types of a class that some pool may buy, as far as one requirement tells by itself. The others
// would only have to be looked at, and passed over, by every plan.
func usable(class engine.Class, pools []*v1.NodePool) []engine.InstanceType {
	var out []engine.InstanceType
	for _, t := range class.InstanceTypes {
		if slices.ContainsFunc(pools, func(p *v1.NodePool) bool { return mayBuy(p, class.Ref, &t) }) {
			out = append(out, t)
		}
	}
	return out
}

func mayBuy(p *v1.NodePool, class v1.NodeClassReference, t *engine.InstanceType) bool {
	spec := &p.Spec.Template.Spec
	if spec.NodeClassRef == nil || *spec.NodeClassRef != class {
		return false
	}
	for _, r := range spec.Requirements {
		key := v1.NormalizeLabel(r.Key)
		values, settled := t.Labels[key]
		switch key {
		case corev1.LabelInstanceTypeStable:
			values, settled = []string{t.Name}, true
		case corev1.LabelTopologyZone, v1.CapacityTypeLabelKey:
			settled = false // an offering's
		}
		if settled && len(values) > 0 && !slices.ContainsFunc(values, func(value string) bool { return admits(r, value) }) {
			return false
		}
	}
	return slices.ContainsFunc(t.Offerings, func(o engine.Offering) bool {
		return !slices.ContainsFunc(spec.Requirements, func(r v1.Requirement) bool {
			key := v1.NormalizeLabel(r.Key)
			return key == corev1.LabelTopologyZone && !admits(r, o.Zone) || key == v1.CapacityTypeLabelKey && !admits(r, o.CapacityType)
		})
	})
}

// admits reports whether a label may have the value. What cannot be read admits everything: the engine will judge it.
func admits(r v1.Requirement, value string) bool {
	switch r.Operator {
	case v1.In:
		return slices.Contains(r.Values, value)
	case v1.NotIn:
		return !slices.Contains(r.Values, value)
	case v1.DoesNotExist:
		return false
	case v1.Gt, v1.Lt, v1.Gte, v1.Lte:
		number, err := strconv.Atoi(value)
		if len(r.Values) != 1 || err != nil {
			return true
		}
		bound, err := strconv.Atoi(r.Values[0])
		if err != nil {
			return true
		}
		switch r.Operator {
		case v1.Gt:
			return number > bound
		case v1.Lt:
			return number < bound
		case v1.Gte:
			return number >= bound
		}
		return number <= bound
	}
	return true
}
