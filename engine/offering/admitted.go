package offering

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// Admitted is an offering of a catalog that a pool's own requirements and labels admit, sold out or not.
type Admitted struct {
	Option
	// Price is the price of a node of the offering, in USD per hour.
	Price   float64
	settled map[string]bool // the labels that some type of the catalog sets
}

// Of lists the offerings of the class's catalog that the pool admits, by price, then by name; overhead is each node's cost besides its machine.
func Of(pool *v1.NodePool, class *engine.Class, overhead float64) []Admitted {
	if class == nil {
		return nil
	}
	settled, admits := settledBy(class.InstanceTypes), admission(pool)
	var out []Admitted
	for i := range class.InstanceTypes {
		kind := &class.InstanceTypes[i]
		for j := range kind.Offerings {
			o := Admitted{Option{Kind: kind, Offering: &kind.Offerings[j]}, kind.Offerings[j].NodePrice(overhead), settled}
			if admits(o) {
				out = append(out, o)
			}
		}
	}
	slices.SortFunc(out, func(a, b Admitted) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.ID().String(), b.ID().String()))
	})
	return out
}

// Types lists, in the catalog's order, the types for which the function `which` returns true and that have an offering for the pool.
func Types(pool *v1.NodePool, class *engine.Class, which func(*engine.InstanceType) bool) (out []*engine.InstanceType) {
	if class == nil {
		return nil
	}
	for i := range class.InstanceTypes {
		if t := &class.InstanceTypes[i]; which(t) {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil
	}
	settled, admits := settledBy(class.InstanceTypes), admission(pool)
	return slices.DeleteFunc(out, func(t *engine.InstanceType) bool {
		return !slices.ContainsFunc(t.Offerings, func(o engine.Offering) bool { return admits(Admitted{Option{Kind: t, Offering: &o}, 0, settled}) })
	})
}

// admission returns a function that reports whether the pool's requirements, labels and taints admit an offering.
func admission(pool *v1.NodePool) func(Admitted) bool {
	asked, taints := poolAsks(pool), v1.CoreTaints(pool.Spec.Template.Spec.Taints)
	return func(o Admitted) bool { return o.meets(asked) && kube.HasTaints(taints, o.Offering.Taints) }
}

// poolAsks returns the pool's requirements, and the labels that it sets, as expressions.
func poolAsks(pool *v1.NodePool) []requirement.Expression {
	var asked []requirement.Expression
	for _, r := range pool.Spec.Template.Spec.Requirements {
		asked = append(asked, kube.PoolExpression(r))
	}
	for key, value := range pool.Spec.Template.Labels {
		asked = append(asked, requirement.Expression{Key: v1.NormalizeLabel(key), Op: requirement.In, Values: []string{value}})
	}
	return asked
}

// meets reports whether a machine of the offering can meet all expressions, without those for labels that no type sets.
func (o Admitted) meets(asked []requirement.Expression) bool {
	return !slices.ContainsFunc(asked, func(e requirement.Expression) bool {
		if !o.settled[e.Key] {
			return false
		}
		values := valuesOf(o.Kind, o.Offering, e.Key)
		if len(values) == 0 {
			return !e.Admits("", false)
		}
		return !slices.ContainsFunc(values, func(v string) bool { return e.Admits(v, true) })
	})
}

// Admits reports whether the labels that types set admit the pod.
func (o Admitted) Admits(pod *corev1.Pod) bool {
	return slices.ContainsFunc(kube.NodeTermsOf(&pod.Spec, v1.NormalizeLabel), o.meets)
}

// Holds reports whether a machine of the offering has room for the requests.
func (o Admitted) Holds(requests corev1.ResourceList) bool {
	have := o.Kind.Allocatable()
	for name, q := range requests {
		if h := have[name]; name != v1.ResourceNodes && q.Cmp(h) > 0 && q.Sign() > 0 {
			return false
		}
	}
	return true
}

// PerCore returns the offering's price per allocatable core. It returns 0 if no core is allocatable or the price is unknown.
func (o Admitted) PerCore() float64 {
	cpu := o.Kind.Allocatable()[corev1.ResourceCPU]
	if cpu.Sign() <= 0 {
		return 0
	}
	if o.Offering.PriceUnknown {
		return 0
	}
	return o.Price / cpu.AsApproximateFloat64()
}
