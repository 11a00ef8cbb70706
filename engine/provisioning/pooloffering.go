package provisioning

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// poolOffering is an offering that a pool's own requirements and labels admit, sold out or not.
type poolOffering struct {
	Kind     *engine.InstanceType
	Offering *engine.Offering
	settled  map[string]bool // the labels that some type of the catalog settles
}

// OfferingsOf lists what the pool may use of its class's catalog, by price, then by name.
func OfferingsOf(pool *v1.NodePool, class *engine.Class) []poolOffering {
	if class == nil {
		return nil
	}
	settled := map[string]bool{corev1.LabelInstanceTypeStable: true, corev1.LabelTopologyZone: true, v1.CapacityTypeLabelKey: true}
	for i := range class.InstanceTypes {
		for key := range class.InstanceTypes[i].Labels {
			settled[key] = true
		}
		for j := range class.InstanceTypes[i].Offerings {
			for key := range class.InstanceTypes[i].Offerings[j].Labels {
				settled[key] = true
			}
		}
	}
	asked, taints := poolAsks(pool), v1.CoreTaints(pool.Spec.Template.Spec.Taints)
	var out []poolOffering
	for i := range class.InstanceTypes {
		kind := &class.InstanceTypes[i]
		for j := range kind.Offerings {
			o := poolOffering{kind, &kind.Offerings[j], settled}
			if o.meets(asked) && kube.HasTaints(taints, o.Offering.Taints) {
				out = append(out, o)
			}
		}
	}
	slices.SortFunc(out, func(a, b poolOffering) int {
		return cmp.Or(cmp.Compare(a.Offering.Price, b.Offering.Price), cmp.Compare(a.ID().String(), b.ID().String()))
	})
	return out
}

// poolAsks is what the pool asks of its machines: its requirements, and the labels that it gives them.
func poolAsks(pool *v1.NodePool) []requirement.Expression {
	var asked []requirement.Expression
	for _, r := range pool.Spec.Template.Spec.Requirements {
		asked = append(asked, requirement.Expression{Key: v1.NormalizeLabel(r.Key), Op: requirement.Operator(r.Operator), Values: v1.NormalizeValues(r.Key, r.Values)})
	}
	for key, value := range pool.Spec.Template.Labels {
		asked = append(asked, requirement.Expression{Key: v1.NormalizeLabel(key), Op: requirement.In, Values: []string{value}})
	}
	return asked
}

func (o poolOffering) ID() engine.OfferingID {
	return engine.OfferingID{InstanceType: o.Kind.Name, Zone: o.Offering.Zone, CapacityType: o.Offering.CapacityType, Reservation: o.Offering.Reservation}
}

// values lists what a machine of the offering can carry under the key.
func (o poolOffering) values(key string) []string {
	switch key {
	case corev1.LabelInstanceTypeStable:
		return []string{o.Kind.Name}
	case corev1.LabelTopologyZone:
		return []string{o.Offering.Zone}
	case v1.CapacityTypeLabelKey:
		return []string{o.Offering.CapacityType}
	}
	if value, ok := o.Offering.Labels[key]; ok {
		return []string{value}
	}
	return o.Kind.Labels[key]
}

// meets reports whether a machine of the offering can meet all expressions, as far as its type settles them.
func (o poolOffering) meets(asked []requirement.Expression) bool {
	return !slices.ContainsFunc(asked, func(e requirement.Expression) bool {
		if !o.settled[e.Key] {
			return false
		}
		values := o.values(e.Key)
		if len(values) == 0 {
			return !e.Admits("", false)
		}
		return !slices.ContainsFunc(values, func(v string) bool { return e.Admits(v, true) })
	})
}

// Admits reports whether the labels that a type settles leave a way for the pod.
func (o poolOffering) Admits(pod *corev1.Pod) bool {
	return slices.ContainsFunc(kube.NodeTermsOf(&pod.Spec, v1.NormalizeLabel), o.meets)
}

// Holds reports whether a machine of the offering has room for so much.
func (o poolOffering) Holds(requests corev1.ResourceList) bool {
	have := o.Kind.Allocatable()
	for name, q := range requests {
		if h := have[name]; name != v1.ResourceNodes && q.Cmp(h) > 0 && q.Sign() > 0 {
			return false
		}
	}
	return true
}

// PerCore is the price of the offering for each core that pods can use, 0 if it has none.
func (o poolOffering) PerCore() float64 {
	cpu := o.Kind.Allocatable()[corev1.ResourceCPU]
	if cpu.Sign() <= 0 {
		return 0
	}
	return o.Offering.Price / cpu.AsApproximateFloat64()
}
