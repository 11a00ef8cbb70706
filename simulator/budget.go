package simulator

import (
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// guards holds all PodDisruptionBudgets.
type guards struct {
	list    []*guard
	changed bool // pods have changed since the last count
}

// guard is a PodDisruptionBudget with the shapes that it covers.
type guard struct {
	budget   *policyv1.PodDisruptionBudget
	selector labels.Selector
	shapes   []*shape // that it covers
}

func newGuard(b *policyv1.PodDisruptionBudget) *guard {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		selector = labels.Nothing() // an invalid selector covers no pod, as in the eviction API
	}
	return &guard{budget: b, selector: selector}
}

// cover finds the budgets that cover a new shape.
func (x *guards) cover(s *shape) {
	for _, g := range x.list {
		if s.sample.Namespace == g.budget.Namespace && g.selector.Matches(labels.Set(s.sample.Labels)) {
			s.guards = append(s.guards, g)
			g.shapes = append(g.shapes, s)
		}
	}
}

// uncover removes a shape from the budgets that cover it.
func (x *guards) uncover(s *shape) {
	for _, g := range s.guards {
		g.shapes = slices.DeleteFunc(g.shapes, func(other *shape) bool { return other == s })
	}
}

// count updates the status of the budgets if pods have changed.
func (x *guards) count() {
	if !x.changed {
		return
	}
	x.changed = false
	for _, g := range x.list {
		expected, healthy := 0, 0
		loads := map[*load]bool{}
		for _, s := range g.shapes {
			if len(s.units.list) == 0 {
				continue
			}
			healthy += s.ready
			switch l := s.units.list[0].load; {
			case l == nil || l.Kind == jobKind || l.Kind == tracedKind:
				expected += len(s.units.list)
			case !loads[l]:
				loads[l] = true
				expected += l.want
			}
		}
		wanted := desiredHealthy(&g.budget.Spec, expected)
		allowed := int32(max(0, healthy-wanted))
		if g.budget.Status.DisruptionsAllowed == allowed && int(g.budget.Status.CurrentHealthy) == healthy {
			continue
		}
		b := *g.budget
		b.Status.DisruptionsAllowed, b.Status.CurrentHealthy = allowed, int32(healthy)
		b.Status.DesiredHealthy, b.Status.ExpectedPods = int32(wanted), int32(expected)
		g.budget = &b
	}
}

func desiredHealthy(spec *policyv1.PodDisruptionBudgetSpec, expected int) int {
	switch {
	case spec.MaxUnavailable != nil:
		n, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, expected, true)
		if err != nil {
			return expected
		}
		return max(0, expected-n)
	case spec.MinAvailable != nil:
		n, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, expected, true)
		if err != nil {
			return expected
		}
		return n
	}
	return 0
}

// lenient reports whether the budget allows the eviction of a pod that is not ready: always, or because enough pods are healthy.
func (g *guard) lenient() bool {
	p := g.budget.Spec.UnhealthyPodEvictionPolicy
	return p != nil && *p == policyv1.AlwaysAllow || g.budget.Status.CurrentHealthy >= g.budget.Status.DesiredHealthy && g.budget.Status.DesiredHealthy > 0
}

func (x *guards) budgets() []*policyv1.PodDisruptionBudget {
	out := make([]*policyv1.PodDisruptionBudget, 0, len(x.list))
	for _, g := range x.list {
		out = append(out, g.budget)
	}
	return out
}
