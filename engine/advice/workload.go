package advice

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

const (
	// mostWorkloads is how many workloads are looked at, those with most pods on new machines first.
	mostWorkloads = 8
	// outOfProportion is how many times as much of one resource as of the other pods ask for that are told so.
	outOfProportion = 1.5
)

// workload is the pods of one owner that wait, some of which the plan starts machines for.
type workload struct {
	name     string
	pods     []*corev1.Pod
	launched int                  // of these, how many get new machines
	kind     *engine.InstanceType // of the first such pod's machine
}

// workloadsOf lists the workloads that the plan starts machines for, those with most pods there first.
func workloadsOf(s *engine.Snapshot, plan *engine.Plan) []workload {
	launch := map[engine.PodID]*engine.Launch{}
	for i := range plan.Launches {
		for _, id := range plan.Launches[i].Pods {
			launch[id] = &plan.Launches[i]
		}
	}
	byName := map[string]*workload{}
	types := typesOf(s)
	for _, pod := range kube.ByName(s.Pods) {
		if pod.Spec.NodeName != "" || kube.IsTerminal(pod) {
			continue
		}
		w, l := byName[ownerName(pod)], launch[kube.PodID(pod)]
		if w == nil {
			w = &workload{name: ownerName(pod)}
			byName[w.name] = w
		}
		w.pods = append(w.pods, pod)
		if l == nil {
			continue
		}
		if w.launched++; w.launched == 1 && len(l.InstanceTypes) > 0 {
			w.kind = types[l.NodePool][l.InstanceTypes[0]]
		}
	}
	var out []workload
	for _, name := range kube.SortedKeys(byName) {
		if byName[name].launched > 0 {
			out = append(out, *byName[name])
		}
	}
	slices.SortStableFunc(out, func(a, b workload) int { return cmp.Compare(b.launched, a.launched) })
	return out[:min(len(out), mostWorkloads)]
}

// ownerName says whose the pod is: "Deployment default/web". Pods of nobody that differ in a number only count as one.
func ownerName(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		stem := pod.Name
		if i := strings.LastIndexByte(stem, '-'); i > 0 {
			if _, err := strconv.Atoi(stem[i+1:]); err == nil {
				stem = stem[:i]
			}
		}
		return "Pod " + pod.Namespace + "/" + stem
	}
	return kube.LastingOwner(pod)
}

// preferenceTrials are what preferences of pods could count less.
func preferenceTrials(s *engine.Snapshot, opt engine.Options, plan *engine.Plan) []trial {
	planned := podsOf(plan)
	if opt.Preferences == engine.Ignore || !slices.ContainsFunc(s.Pods, func(p *corev1.Pod) bool { return planned[kube.PodID(p)] && prefers(p) }) {
		return nil
	}
	var out []trial
	add := func(policy engine.PreferencePolicy, change, caution string) {
		opt.Preferences = policy
		out = append(out, trial{Suggestion{Kind: Preferences, Object: "--preference-policy", Values: []string{string(policy)}, Change: change, Caution: caution}, func() *engine.Snapshot { return s }, opt})
	}
	if opt.Preferences == engine.Respect {
		add(engine.Weighted, "Weighted: preferences of pods are met where they cost little", "")
	}
	add(engine.Ignore, "Ignore: preferences of pods count for nothing", "replicas may end up beside each other")
	return out
}

// prefers reports whether the pod prefers some places to others.
func prefers(pod *corev1.Pod) bool {
	if slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.ScheduleAnyway
	}) {
		return true
	}
	a := pod.Spec.Affinity
	return a != nil && (a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAffinity != nil && len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0)
}

// workloadTrials are what workloads could do without. What a pod asks of its node by a selector or by affinity stays: it is taken at
// its word.
func workloadTrials(s *engine.Snapshot, opt engine.Options, plan *engine.Plan) []trial {
	var spreads, requests []trial
	for _, w := range workloadsOf(s, plan) {
		for _, key := range w.spreads() {
			x := Suggestion{Kind: Spread, Object: w.name, Keys: []string{key}, Change: "no DoNotSchedule spread over " + key, Caution: "more of its pods go when one of these fails"}
			spreads = append(spreads, trial{x, w.with(s, func(pod *corev1.Pod) {
				pod.Spec.TopologySpreadConstraints = slices.DeleteFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool { return isHard(c, key) })
			}), opt})
		}
		if t, ok := w.inProportion(s, opt); ok {
			requests = append(requests, t)
		}
	}
	return append(spreads, requests...)
}

func isHard(c corev1.TopologySpreadConstraint, key string) bool {
	return c.WhenUnsatisfiable == corev1.DoNotSchedule && v1.NormalizeLabel(c.TopologyKey) == key
}

// spreads are the labels that pods of the workload have to be spread over, in order.
func (w *workload) spreads() []string {
	var out []string
	for _, pod := range w.pods {
		for _, c := range pod.Spec.TopologySpreadConstraints {
			if c.WhenUnsatisfiable == corev1.DoNotSchedule {
				out = append(out, v1.NormalizeLabel(c.TopologyKey))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// inProportion has the workload's pods ask for as large a share of their machine of cpu and memory each, if they ask for far more of
// one: the container that requests most of it requests less.
func (w *workload) inProportion(s *engine.Snapshot, opt engine.Options) (trial, bool) {
	if w.kind == nil {
		return trial{}, false
	}
	need, have := kube.PodRequests(w.pods[0]), w.kind.Allocatable()
	share := func(name corev1.ResourceName) float64 {
		n, of := need[name], have[name]
		return n.AsApproximateFloat64() / max(of.AsApproximateFloat64(), math.SmallestNonzeroFloat64)
	}
	much, little := corev1.ResourceCPU, corev1.ResourceMemory
	if share(little) > share(much) {
		much, little = little, much
	}
	times := share(much) / share(little)
	if !(times >= outOfProportion) || math.IsInf(times, 0) { // it asks for nothing of one
		return trial{}, false
	}
	i := largestRequest(w.pods[0], much)
	if i < 0 {
		return trial{}, false
	}
	c := &w.pods[0].Spec.Containers[i]
	was, whole := c.Resources.Requests[much], need[much]
	is, ok := less(much, was, whole.AsApproximateFloat64()*(1-1/times))
	if !ok || slices.ContainsFunc(w.pods, func(p *corev1.Pod) bool { // of whom it would have to be said apart
		q, j := resource.Quantity{}, largestRequest(p, much)
		if j == i {
			q = p.Spec.Containers[j].Resources.Requests[much]
		}
		return q.Cmp(was) != 0
	}) {
		return trial{}, false
	}
	caution := "only if it uses no more: nothing here knows"
	if limit, limited := c.Resources.Limits[much]; limited && limit.Cmp(was) == 0 {
		caution += "; its limit has to go down as well if the pod is to stay Guaranteed"
	}
	return trial{Suggestion{
		Kind: Requests, Object: w.name, Keys: []string{string(much)}, Values: []string{is.String()},
		Change: fmt.Sprintf("request %s %s in container %s, not %s: its share of a machine's %s is %.1f times its share of %s",
			engine.AmountWords(much, is), much, c.Name, engine.AmountWords(much, was), much, times, little),
		Caution: caution,
	}, w.with(s, func(pod *corev1.Pod) {
		pod.Spec.Containers = slices.Clone(pod.Spec.Containers)
		r := &pod.Spec.Containers[i].Resources
		r.Requests = maps.Clone(r.Requests)
		r.Requests[much] = is
	}), opt}, true
}

// largestRequest is the container that requests most of the resource, the first of equals; -1 if none requests any.
func largestRequest(pod *corev1.Pod, name corev1.ResourceName) int {
	at, most := -1, resource.Quantity{}
	for i := range pod.Spec.Containers {
		if q := pod.Spec.Containers[i].Resources.Requests[name]; q.Cmp(most) > 0 {
			at, most = i, q
		}
	}
	return at
}

// less is the request less the excess, rounded up to a thousandth of a core or a mebibyte; ok is false if nothing would be left, or as much.
func less(name corev1.ResourceName, was resource.Quantity, excess float64) (is resource.Quantity, ok bool) {
	left := was.AsApproximateFloat64() - excess
	if name == corev1.ResourceCPU {
		is = *resource.NewMilliQuantity(int64(math.Ceil(left*1000-1e-6)), resource.DecimalSI)
	} else {
		is = *resource.NewQuantity(int64(math.Ceil(left/(1<<20)-1e-6))<<20, resource.BinarySI)
	}
	return is, is.Sign() > 0 && is.Cmp(was) < 0
}

// with makes the snapshot in which the workload's pods are others.
func (w *workload) with(s *engine.Snapshot, change func(pod *corev1.Pod)) func() *engine.Snapshot {
	return func() *engine.Snapshot {
		mine := map[*corev1.Pod]bool{}
		for _, pod := range w.pods {
			mine[pod] = true
		}
		out := *s
		out.Pods = slices.Clone(s.Pods)
		for i, pod := range s.Pods {
			if mine[pod] {
				other := *pod
				other.Spec.TopologySpreadConstraints = slices.Clone(pod.Spec.TopologySpreadConstraints)
				change(&other)
				out.Pods[i] = &other
			}
		}
		return &out
	}
}
