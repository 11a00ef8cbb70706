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
	// mostWorkloads is the largest number of workloads that are tried. Workloads with more pods on new machines come first.
	mostWorkloads = 8
	// outOfProportion is the ratio between the shares of two requested resources from which a smaller request is suggested.
	outOfProportion = 1.5
)

// workload holds the pending pods of one owner. The plan starts machines for some of them.
type workload struct {
	name     string
	pods     []*corev1.Pod
	launched int                  // the number of pods that get new machines
	kind     *engine.InstanceType // the type of the first such pod's machine
}

// workloadsOf lists the workloads for which the plan starts machines, the workloads with most pods on new machines first.
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

// ownerName returns the pod's owner: "Deployment default/web". Pods without an owner whose names differ only in a number at the end count as one
// workload.
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

// preferenceTrials lists the trials of policies under which preferences of pods count less.
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

// prefers reports whether the pod has preferences about nodes or other pods.
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

// workloadTrials lists trials without spread constraints, and trials with smaller requests. Node selectors and affinity of pods stay as they
// are, because the pods may need them.
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

// spreads lists, in order, the labels over which pods of the workload must be spread.
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

// inProportion reduces the request of which the pods ask for a far larger share of their machine, cpu or memory, until both shares are equal. It
// reduces the request of the container with the largest request.
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
	if !(times >= outOfProportion) || math.IsInf(times, 0) { // the pod requests nothing of one of the resources
		return trial{}, false
	}
	i := largestRequest(w.pods[0], much)
	if i < 0 {
		return trial{}, false
	}
	c := &w.pods[0].Spec.Containers[i]
	was, whole := c.Resources.Requests[much], need[much]
	is, ok := less(much, was, whole.AsApproximateFloat64()*(1-1/times))
	if !ok || slices.ContainsFunc(w.pods, func(p *corev1.Pod) bool { // each different pod would need its own suggestion
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

// largestRequest returns the index of the first container with the largest request of the resource. It returns -1 if none requests it.
func largestRequest(pod *corev1.Pod, name corev1.ResourceName) int {
	at, most := -1, resource.Quantity{}
	for i := range pod.Spec.Containers {
		if q := pod.Spec.Containers[i].Resources.Requests[name]; q.Cmp(most) > 0 {
			at, most = i, q
		}
	}
	return at
}

// less returns the request less the excess, rounded up to a thousandth of a core or a mebibyte. ok is false if nothing would be left, or if the
// request would not fall.
func less(name corev1.ResourceName, was resource.Quantity, excess float64) (is resource.Quantity, ok bool) {
	left := was.AsApproximateFloat64() - excess
	if name == corev1.ResourceCPU {
		is = *resource.NewMilliQuantity(int64(math.Ceil(left*1000-1e-6)), resource.DecimalSI)
	} else {
		is = *resource.NewQuantity(int64(math.Ceil(left/(1<<20)-1e-6))<<20, resource.BinarySI)
	}
	return is, is.Sign() > 0 && is.Cmp(was) < 0
}

// with returns a function that makes the snapshot in which the workload's pods are changed.
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
