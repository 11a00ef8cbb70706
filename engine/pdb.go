package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

type policyBudget = policyv1.PodDisruptionBudget

// allowsNone reports whether the budget's spec rules out every eviction.
func allowsNone(b *policyBudget) bool {
	if v := b.Spec.MaxUnavailable; v != nil && (v.String() == "0" || v.String() == "0%") {
		return true
	}
	return b.Spec.MinAvailable != nil && b.Spec.MinAvailable.String() == "100%"
}

func evictsUnready(b *policyBudget) bool {
	p := b.Spec.UnhealthyPodEvictionPolicy
	return p != nil && *p == policyv1.AlwaysAllow
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// guard is a PodDisruptionBudget with what it still allows.
type guard struct {
	budget   *policyBudget
	text     string // its namespace and name
	selector labels.Selector
	left     int // evictions that it allows now and that nothing else will use
	most     int // the most that it can ever allow
}

func (g *guard) name() string { return g.text }

// guards finds the budgets that cover pods, and keeps count of what they allow while one node after another is chosen.
type guards struct {
	byNamespace map[string][]*guard
	broken      []Note
	census      *census             // may be nil
	byKind      map[*alike][]*guard // what covering has found
}

func newGuards(s *Snapshot, c *census) *guards {
	g := &guards{byNamespace: map[string][]*guard{}, census: c, byKind: map[*alike][]*guard{}}
	for _, b := range s.PodDisruptionBudgets {
		if b.Spec.Selector == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			g.broken = append(g.broken, Note{
				Object: "PodDisruptionBudget " + b.Namespace + "/" + b.Name, Reason: Reason{Code: UnreadableSelector, Have: err.Error()},
			})
			continue
		}
		x := &guard{budget: b, text: b.Namespace + "/" + b.Name, selector: selector, left: int(max(b.Status.DisruptionsAllowed, 0))}
		x.most = max(x.left, int(b.Status.ExpectedPods-b.Status.DesiredHealthy))
		if b.Status.ExpectedPods == 0 {
			x.most = len(s.Pods) // nobody has said
		}
		if b.Status.ObservedGeneration < b.Generation { // the eviction API refuses until the budget has been looked at
			x.left = 0
		}
		g.byNamespace[b.Namespace] = append(g.byNamespace[b.Namespace], x)
	}
	for _, list := range g.byNamespace {
		slices.SortFunc(list, func(a, b *guard) int { return cmp.Compare(a.budget.Name, b.budget.Name) })
	}
	slices.SortFunc(g.broken, func(a, b Note) int { return cmp.Compare(a.Object, b.Object) })
	return g
}

// covering lists the budgets that cover the pod.
func (g *guards) covering(pod *corev1.Pod) []*guard {
	if g.census == nil {
		return g.find(pod)
	}
	if f := g.census.memo.pods[pod]; f != nil {
		return g.coveringFacts(f)
	}
	return g.find(pod)
}

// coveringFacts is covering the pod of the facts; those that are alike share the answer.
func (g *guards) coveringFacts(f *podFacts) []*guard {
	covering, known := g.byKind[f.kind]
	if !known {
		covering = g.find(f.pod)
		g.byKind[f.kind] = covering
	}
	return covering
}

func (g *guards) find(pod *corev1.Pod) []*guard {
	var out []*guard
	for _, x := range g.byNamespace[pod.Namespace] {
		if x.selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, x)
		}
	}
	return out
}

// neverAllow reports whether no eviction of the pod can ever be allowed: a budget that says so in its spec, or more than one
// budget, which the eviction API refuses.
func (g *guards) neverAllow(pod *corev1.Pod) bool {
	if len(g.byNamespace) == 0 {
		return false
	}
	covering := g.covering(pod)
	for _, x := range covering {
		if allowsNone(x.budget) && !(evictsUnready(x.budget) && !isReady(pod)) {
			return true
		}
	}
	return len(covering) > 1
}

// mayForbid reports whether neverAllow could be true of the pod or of one with its namespace and labels.
func (g *guards) mayForbid(pod *corev1.Pod) bool {
	covering := g.covering(pod)
	return len(covering) > 1 || len(covering) == 1 && allowsNone(covering[0].budget)
}

// guardNeed is so many pods whose eviction a budget would have to allow.
type guardNeed struct {
	*guard
	n     int
	first *corev1.Pod // of them
}

// needs counts, for each budget, the pods whose eviction it would have to allow, in the order of the budgets' names. A pod that
// several budgets cover can never be evicted: the eviction API refuses it.
func (g *guards) needs(pods []*podFacts) ([]guardNeed, Reason) {
	if len(g.byNamespace) == 0 {
		return nil, Reason{}
	}
	var out []guardNeed
	for _, f := range pods {
		pod, covering := f.pod, g.coveringFacts(f)
		switch {
		case len(covering) == 0:
		case len(covering) > 1:
			return nil, Reason{Code: EvictionBlocked, Key: podID(pod).String(), Have: "several cover it: " + guardNames(covering)}
		case evictsUnready(covering[0].budget) && !isReady(pod):
		default:
			i := slices.IndexFunc(out, func(x guardNeed) bool { return x.guard == covering[0] })
			if i < 0 {
				i = len(out)
				out = append(out, guardNeed{guard: covering[0], first: pod})
			}
			out[i].n++
		}
	}
	slices.SortFunc(out, func(a, b guardNeed) int { return cmp.Compare(a.name(), b.name()) })
	return out, Reason{}
}

// allow says whether all the pods may be evicted now. A budget that can never allow that many at a time has to allow all that
// it ever can: then they go one after another.
func (g *guards) allow(pods []*podFacts) Reason {
	needs, r := g.needs(pods)
	if !r.OK() {
		return r
	}
	for _, x := range needs {
		if need := min(x.n, max(x.most, 1)); need > x.left {
			return Reason{
				Code: EvictionBlocked, Key: podID(x.first).String(),
				Have: fmt.Sprintf("%s allows %d now, %d needed", x.name(), x.left, need),
			}
		}
	}
	return Reason{}
}

// use takes what the pods need off what the budgets allow; n is -1 to give it back.
func (g *guards) use(pods []*podFacts, n int) {
	needs, _ := g.needs(pods)
	for _, x := range needs {
		x.left -= n * x.n
	}
}

func guardNames(list []*guard) string {
	names := make([]string, 0, len(list))
	for _, x := range list {
		names = append(names, x.name())
	}
	return strings.Join(names, ", ")
}

// evictees are the pods that a drain would send away through the eviction API.
func (d *disruptor) evictees(h *host) []*podFacts {
	r := h.roll
	if r.evicteesRead && (r.evicteesLast || r.evicteesAt.Equal(d.s.Now)) {
		return r.evictees
	}
	r.evictees, r.evicteesAt, r.evicteesRead, r.evicteesLast = nil, d.s.Now, true, true
	for _, f := range r.facts {
		if !f.active() || !f.drainable { // what is active is not stuck
			continue
		}
		if f.guarded {
			r.evicteesLast = false
			if ProtectionOf(f.pod, d.s.Now).Active {
				continue
			}
		}
		r.evictees = append(r.evictees, f)
	}
	return r.evictees
}

// selects reports whether the budget covers the pod. A selector that cannot be read covers nothing, as in the eviction API.
func selects(b *policyBudget, pod *corev1.Pod) bool {
	if b.Namespace != pod.Namespace || b.Spec.Selector == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}
