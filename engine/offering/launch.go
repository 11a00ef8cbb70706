package offering

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
)

// Pin returns the requirements and labels of a new machine: the listed types, zones and capacity types, the pool's other requirements, and a
// value for each label that the pods need and no type sets.
func (p *Pool) Pin(x *packing.Machine) ([]v1.Requirement, map[string]string) {
	pinned := map[string][]string{}
	chosen := &p.Options[x.Chosen]
	keys := []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, v1.CapacityTypeLabelKey, corev1.LabelArchStable, corev1.LabelOSStable}
	keys = append(keys, kube.SeveralValued(chosen.Kind)...)
	keys = append(keys, kube.SortedKeys(p.chosen)...)
	for key := range chosen.Offering.Labels {
		keys = append(keys, key)
	}
	for _, key := range keys {
		for _, o := range x.Listed { // cheapest first
			if value, ok := p.Options[o].label(key); ok && !slices.Contains(pinned[key], value) {
				pinned[key] = append(pinned[key], value)
			}
		}
	}
	labels := map[string]string{}
	for key := range p.chosen {
		labels[key], _ = chosen.label(key)
	}
	for i, k := range p.free {
		key := p.in.Universe.Name(k)
		if _, given := p.labels[key]; given || key == corev1.LabelHostname || key == kube.NodeNameKey {
			continue
		}
		set := x.Free[i]
		if set.Has(0) { // the label may be absent
			continue
		}
		value, _ := p.in.Universe.Value(k, set.Next(0))
		labels[key] = value
		pinned[key] = []string{value}
	}
	return p.requirements(pinned), labels
}

// requirements joins the pool's requirements with the pinned values of the launch, by key.
func (p *Pool) requirements(pinned map[string][]string) []v1.Requirement {
	var out []v1.Requirement
	for _, r := range p.NodePool.Spec.Template.Spec.Requirements {
		if _, ok := pinned[v1.NormalizeLabel(r.Key)]; !ok {
			out = append(out, r)
		}
	}
	for _, key := range kube.SortedKeys(pinned) {
		r := v1.Requirement{Key: key, Operator: v1.In, Values: pinned[key]}
		for _, own := range p.NodePool.Spec.Template.Spec.Requirements {
			if v1.NormalizeLabel(own.Key) == key && own.MinValues != nil && *own.MinValues <= len(r.Values) {
				r.MinValues = own.MinValues
			}
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b v1.Requirement) int { return cmp.Compare(a.Key, b.Key) })
	return out
}
