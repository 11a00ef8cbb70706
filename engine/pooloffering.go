package engine

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/requirement"
)

// poolOffering is an offering that a pool's own requirements and labels admit, sold out or not.
type poolOffering struct {
	kind     *InstanceType
	offering *Offering
	settled  map[string]bool // the labels that some type of the catalog settles
}

// offeringsOf lists what the pool may use of its class's catalog, by price, then by name.
func offeringsOf(pool *v1.NodePool, class *Class) []poolOffering {
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
	asked := poolAsks(pool)
	var out []poolOffering
	for i := range class.InstanceTypes {
		kind := &class.InstanceTypes[i]
		for j := range kind.Offerings {
			o := poolOffering{kind, &kind.Offerings[j], settled}
			if o.meets(asked) {
				out = append(out, o)
			}
		}
	}
	slices.SortFunc(out, func(a, b poolOffering) int {
		return cmp.Or(cmp.Compare(a.offering.Price, b.offering.Price), cmp.Compare(a.id().String(), b.id().String()))
	})
	return out
}

// poolAsks is what the pool asks of its machines: its requirements, and the labels that it gives them.
func poolAsks(pool *v1.NodePool) []requirement.Expression {
	var asked []requirement.Expression
	for _, r := range pool.Spec.Template.Spec.Requirements {
		asked = append(asked, requirement.Expression{Key: v1.NormalizeLabel(r.Key), Op: requirement.Operator(r.Operator), Values: r.Values})
	}
	for key, value := range pool.Spec.Template.Labels {
		asked = append(asked, requirement.Expression{Key: v1.NormalizeLabel(key), Op: requirement.In, Values: []string{value}})
	}
	return asked
}

func (o poolOffering) id() OfferingID {
	return OfferingID{o.kind.Name, o.offering.Zone, o.offering.CapacityType, o.offering.Reservation}
}

// values lists what a machine of the offering can carry under the key.
func (o poolOffering) values(key string) []string {
	switch key {
	case corev1.LabelInstanceTypeStable:
		return []string{o.kind.Name}
	case corev1.LabelTopologyZone:
		return []string{o.offering.Zone}
	case v1.CapacityTypeLabelKey:
		return []string{o.offering.CapacityType}
	}
	if value, ok := o.offering.Labels[key]; ok {
		return []string{value}
	}
	return o.kind.Labels[key]
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

// admits reports whether the labels that a type settles leave a way for the pod.
func (o poolOffering) admits(pod *corev1.Pod) bool {
	for key, value := range pod.Spec.NodeSelector {
		e := requirement.Expression{Key: v1.NormalizeLabel(key), Op: requirement.In, Values: []string{value}}
		if !o.meets([]requirement.Expression{e}) {
			return false
		}
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool {
		var asked []requirement.Expression
		for _, e := range term.MatchExpressions {
			asked = append(asked, expression(e.Key, e.Operator, e.Values))
		}
		return len(term.MatchExpressions)+len(term.MatchFields) > 0 && o.meets(asked)
	})
}

// holds reports whether a machine of the offering has room for so much.
func (o poolOffering) holds(requests corev1.ResourceList) bool {
	have := o.kind.Allocatable()
	for name, q := range requests {
		if h := have[name]; name != v1.ResourceNodes && q.Cmp(h) > 0 && q.Sign() > 0 {
			return false
		}
	}
	return true
}

// perCore is the price of the offering for each core that pods can use, 0 if it has none.
func (o poolOffering) perCore() float64 {
	cpu := o.kind.Allocatable()[corev1.ResourceCPU]
	if cpu.Sign() <= 0 {
		return 0
	}
	return o.offering.Price / cpu.AsApproximateFloat64()
}
