package budget

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

type policyBudget = policyv1.PodDisruptionBudget

// allowsNone reports whether the budget's spec rules out every eviction.
func allowsNone(b *policyBudget) bool {
	if v := b.Spec.MaxUnavailable; v != nil && (v.String() == "0" || v.String() == "0%") {
		return true
	}
	return b.Spec.MinAvailable != nil && b.Spec.MinAvailable.String() == "100%"
}

func EvictsUnready(b *policyBudget) bool {
	p := b.Spec.UnhealthyPodEvictionPolicy
	return p != nil && *p == policyv1.AlwaysAllow
}

func IsReady(pod *corev1.Pod) bool {
	ready, _ := readiness(pod)
	return ready == corev1.ConditionTrue
}

// Guard is a PodDisruptionBudget with its remaining evictions.
type Guard struct {
	budget   *policyBudget
	text     string // its namespace and name
	selector labels.Selector
	Left     int // evictions that it allows now, minus those in use
	Most     int // the most evictions that it can ever allow at a time
}

func (g *Guard) Name() string { return g.text }

// Guards finds the PodDisruptionBudgets of pods, and counts their remaining evictions while nodes are chosen one after another.
type Guards struct {
	ByNamespace map[string][]*Guard
	Broken      []engine.Note
	pods        *inventory.PodIndex                // may be nil
	byKind      map[*inventory.LabelClass][]*Guard // results of covering
}

func NewGuards(s *engine.Snapshot, c *inventory.PodIndex) *Guards {
	g := &Guards{ByNamespace: map[string][]*Guard{}, pods: c, byKind: map[*inventory.LabelClass][]*Guard{}}
	for _, b := range s.PodDisruptionBudgets {
		if b.Spec.Selector == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			g.Broken = append(g.Broken, engine.Note{
				Object: "PodDisruptionBudget " + b.Namespace + "/" + b.Name, Reason: engine.Reason{Code: engine.UnreadableSelector, Have: err.Error()},
			})
			continue
		}
		x := &Guard{budget: b, text: b.Namespace + "/" + b.Name, selector: selector, Left: int(max(b.Status.DisruptionsAllowed, 0))}
		x.Most = max(x.Left, int(b.Status.ExpectedPods-b.Status.DesiredHealthy))
		if b.Status.ExpectedPods == 0 {
			x.Most = len(s.Pods) // the status is not filled in yet
		}
		if b.Status.ObservedGeneration < b.Generation { // the eviction API refuses until the controller has seen the change
			x.Left = 0
		}
		g.ByNamespace[b.Namespace] = append(g.ByNamespace[b.Namespace], x)
	}
	for _, list := range g.ByNamespace {
		slices.SortFunc(list, func(a, b *Guard) int { return cmp.Compare(a.budget.Name, b.budget.Name) })
	}
	slices.SortFunc(g.Broken, func(a, b engine.Note) int { return cmp.Compare(a.Object, b.Object) })
	return g
}

// covering lists the budgets that cover the pod.
func (g *Guards) covering(pod *corev1.Pod) []*Guard {
	if g.pods == nil {
		return g.find(pod)
	}
	if info := g.pods.Cache.Pods[pod]; info != nil {
		return g.coveringInfo(info)
	}
	return g.find(pod)
}

// coveringInfo returns the result of covering for the info's pod; pods with equal labels share this result.
func (g *Guards) coveringInfo(info *inventory.PodInfo) []*Guard {
	covering, known := g.byKind[info.Labels]
	if !known {
		covering = g.find(info.Pod)
		g.byKind[info.Labels] = covering
	}
	return covering
}

func (g *Guards) find(pod *corev1.Pod) []*Guard {
	var out []*Guard
	if kube.IsBufferPod(pod) {
		return nil
	}
	for _, x := range g.ByNamespace[pod.Namespace] {
		if x.selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, x)
		}
	}
	return out
}

// NeverAllow reports whether no eviction of the pod can ever be allowed: because of a budget's spec, or because several budgets cover the pod,
// which the eviction API refuses.
func (g *Guards) NeverAllow(pod *corev1.Pod) bool {
	if len(g.ByNamespace) == 0 {
		return false
	}
	covering := g.covering(pod)
	for _, x := range covering {
		if allowsNone(x.budget) && !(EvictsUnready(x.budget) && !IsReady(pod)) {
			return true
		}
	}
	return len(covering) > 1
}

// MayForbid reports whether NeverAllow could be true of the pod or of another pod with its namespace and labels.
func (g *Guards) MayForbid(pod *corev1.Pod) bool {
	covering := g.covering(pod)
	return len(covering) > 1 || len(covering) == 1 && allowsNone(covering[0].budget)
}

// GuardNeed is the number of pods whose eviction a budget would have to allow.
type GuardNeed struct {
	*Guard
	N     int
	First *corev1.Pod // the first of these pods
}

// Needs counts, for each budget, the pods whose eviction it would have to allow, in the order of the budgets' names. A pod that
// several budgets cover can never be evicted: the eviction API refuses it.
func (g *Guards) Needs(pods []*inventory.PodInfo) ([]GuardNeed, engine.Reason) {
	if len(g.ByNamespace) == 0 {
		return nil, engine.Reason{}
	}
	var out []GuardNeed
	for _, info := range pods {
		pod, covering := info.Pod, g.coveringInfo(info)
		switch {
		case len(covering) == 0:
		case len(covering) > 1:
			return nil, engine.Reason{Code: engine.EvictionBlocked, Key: kube.PodID(pod).String(), Have: "several cover it: " + guardNames(covering)}
		case EvictsUnready(covering[0].budget) && !IsReady(pod):
		default:
			i := slices.IndexFunc(out, func(x GuardNeed) bool { return x.Guard == covering[0] })
			if i < 0 {
				i = len(out)
				out = append(out, GuardNeed{Guard: covering[0], First: pod})
			}
			out[i].N++
		}
	}
	slices.SortFunc(out, func(a, b GuardNeed) int { return cmp.Compare(a.Name(), b.Name()) })
	return out, engine.Reason{}
}

// Allow returns the zero Reason if all the pods may be evicted now. A budget that can never allow that many at a time must allow its maximum:
// then the pods go one after another.
func (g *Guards) Allow(pods []*inventory.PodInfo) engine.Reason {
	needs, r := g.Needs(pods)
	if !r.OK() {
		return r
	}
	for _, x := range needs {
		if need := min(x.N, max(x.Most, 1)); need > x.Left {
			return engine.Reason{
				Code: engine.EvictionBlocked, Key: kube.PodID(x.First).String(),
				Have: fmt.Sprintf("%s allows %d now, %d needed", x.Name(), max(x.Left, 0), need),
			}
		}
	}
	return engine.Reason{}
}

// Use subtracts the pods' evictions from the budgets; n is -1 to return them.
func (g *Guards) Use(pods []*inventory.PodInfo, n int) {
	needs, _ := g.Needs(pods)
	for _, x := range needs {
		x.Left -= n * x.N
	}
}

func guardNames(list []*Guard) string {
	names := make([]string, 0, len(list))
	for _, x := range list {
		names = append(names, x.Name())
	}
	return strings.Join(names, ", ")
}

// Selects reports whether the budget covers the pod. An unreadable selector covers nothing, as in the eviction API.
func Selects(b *policyBudget, pod *corev1.Pod) bool {
	if b.Namespace != pod.Namespace || b.Spec.Selector == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}
