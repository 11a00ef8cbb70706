package simulator

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/offer"
)

// usable returns the instance types of a class that some NodePool may buy, judged by single labels. Plans would look at the other types in vain.
func usable(class engine.Class, pools []*v1.NodePool) []engine.InstanceType {
	var wanted []offer.Wanted
	for _, p := range pools {
		if len(class.Pools) > 0 && !slices.Contains(class.Pools, p.Name) {
			continue
		}
		if spec := &p.Spec.Template.Spec; spec.NodeClassRef != nil && *spec.NodeClassRef == class.Ref {
			wanted = append(wanted, offer.NewWanted(spec.Requirements))
		}
	}
	var out []engine.InstanceType
	for _, t := range class.InstanceTypes {
		if slices.ContainsFunc(wanted, func(w offer.Wanted) bool { return mayBuy(w, &t) }) {
			out = append(out, t)
		}
	}
	return out
}

func mayBuy(w offer.Wanted, t *engine.InstanceType) bool {
	if !w.Allows(corev1.LabelInstanceTypeStable, t.Name) {
		return false
	}
	for key, values := range t.Labels {
		if len(values) > 0 && !slices.ContainsFunc(values, func(value string) bool { return w.Allows(key, value) }) {
			return false
		}
	}
	return slices.ContainsFunc(t.Offerings, func(o engine.Offering) bool {
		return w.Allows(corev1.LabelTopologyZone, o.Zone) && w.Allows(v1.CapacityTypeLabelKey, o.CapacityType)
	})
}
