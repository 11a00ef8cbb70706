package provisioning_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/workload"
)

// withAsk is the snapshot with pods of which each asks for more.
func withAsk(s *engine.Snapshot, more func(i int, pod *corev1.Pod)) *engine.Snapshot {
	out := *s
	out.Pods = nil
	for i, pod := range s.Pods {
		changed := pod.DeepCopy()
		if changed.Spec.Affinity == nil {
			changed.Spec.Affinity = &corev1.Affinity{}
		}
		if changed.Spec.Affinity.NodeAffinity == nil {
			changed.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
		}
		more(i, changed)
		out.Pods = append(out.Pods, changed)
	}
	return &out
}

func expecting(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
}

func numberedValues(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%d", prefix, i))
	}
	return out
}

// Values and labels that pods name and no machine has make no difference: not in the labels to avoid, not beside other labels, not as an
// alternative.
func TestWhatNoMachineHasMakesNoDifference(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Few(4) {
		s := workload.Flexible(40, seed, 0)
		zones := []string{"us-east-1a", "us-east-1b", "us-east-1c"}
		plain := withAsk(s, func(_ int, pod *corev1.Pod) {
			pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{expecting(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, zones...)}},
			}}
		})
		wordy := withAsk(plain, func(i int, pod *corev1.Pod) {
			own := numberedValues(fmt.Sprint("own-", i), 20)
			required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			required.NodeSelectorTerms[0].MatchExpressions = []corev1.NodeSelectorRequirement{
				expecting(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, slices.Concat(zones, own)...),
				expecting(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpNotIn, own...),
				expecting(corev1.LabelHostname, corev1.NodeSelectorOpNotIn, own...),
				expecting(own[0], corev1.NodeSelectorOpNotIn, own...),
				expecting(own[1], corev1.NodeSelectorOpDoesNotExist),
			}
			required.NodeSelectorTerms = append(required.NodeSelectorTerms,
				corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{expecting(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, own...)}},
				corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{expecting(own[2], corev1.NodeSelectorOpExists)}})
		})
		want, got := provisioning.Plan(plain, engine.Options{}, nil), provisioning.Plan(wordy, engine.Options{}, nil)
		if len(want.Unplaced) != len(got.Unplaced) || math.Abs(want.Cost.LaunchesPerHour-got.Cost.LaunchesPerHour) > 1e-9 {
			t.Errorf("seed %d: %d pods without a place at $%g/h, %d at $%g/h where they name what no machine has", seed,
				len(want.Unplaced), want.Cost.LaunchesPerHour, len(got.Unplaced), got.Cost.LaunchesPerHour)
		}
	}
}

// Reasons name a label that the pod asks for even if no machine has it.
func TestReasonsNameWhatNoMachineHas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ask  corev1.NodeSelectorRequirement
		want string
	}{
		{expecting(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "nowhere-1"), "asks for label topology.kubernetes.io/zone In (nowhere-1), the pool offers us-east-1a"},
		{expecting("team", corev1.NodeSelectorOpExists), "asks for label team Exists, which the pool does not define"},
		{expecting("team", corev1.NodeSelectorOpIn, "x"), "asks for label team In (x), which the pool does not define"},
	} {
		s := withAsk(workload.Flexible(1, 1, 0), func(_ int, pod *corev1.Pod) {
			pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{c.ask}},
			}}
		})
		if got := reasonsOf(provisioning.Plan(s, engine.Options{}, nil)); len(got) != 1 || !strings.Contains(got[0], c.want) {
			t.Errorf("%v: %q, want one that says %q", c.ask, got, c.want)
		}
	}
}

func reasonsOf(plan *engine.Plan) []string {
	var out []string
	for _, u := range plan.Unplaced {
		out = append(out, engine.Sentence(u.Reasons))
	}
	return out
}

// Of many preferences several are given up at a time, but first of all those that no machine meets: a light preference that can be met is
// met behind hundreds of heavier ones that cannot.
func TestAPreferenceIsMetBehindManyThatCannotBe(t *testing.T) {
	t.Parallel()
	s := withAsk(workload.Flexible(1, 1, 0), func(_ int, pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		prefer := func(weight int32, zone string) {
			list := &pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
			*list = append(*list, corev1.PreferredSchedulingTerm{Weight: weight, Preference: corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{expecting(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, zone)},
			}})
		}
		for i := range 300 {
			prefer(100, fmt.Sprint("nowhere-", i))
		}
		prefer(1, "us-east-1c")
	})
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) != 1 || slices.ContainsFunc(plan.Launches[0].Offerings, func(o engine.LaunchOffering) bool { return o.Zone != "us-east-1c" }) {
		t.Errorf("the pod is planned for elsewhere: %v", plan.Launches)
	}
}

// If the rules of pods are too many for one plan, the pods of the namespace with the most rules are refused for this reason, and the others are
// served. Once the others have their places, there is room for more.
func TestPodsThatAskForTooMuchComeLast(t *testing.T) {
	t.Parallel()
	const pods, wishes = 80, 600
	s := withAsk(workload.Flexible(pods, 3, 0), func(i int, pod *corev1.Pod) {
		if i%2 == 0 {
			return
		}
		pod.Namespace, pod.Labels = "greedy", map[string]string{"app": fmt.Sprint("greedy-", i)}
		pod.Spec.TopologySpreadConstraints = nil
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
		for j := range wishes {
			list := &pod.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
			*list = append(*list, corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("friend-%d-%d", i, j)}},
			}})
		}
	})
	plan := provisioning.Plan(s, engine.Options{}, nil)
	for _, u := range plan.Unplaced {
		if u.Pod.Namespace != "greedy" || len(u.Reasons) != 1 || u.Reasons[0].Code != engine.TooComplex ||
			!strings.Contains(u.Reasons[0].Message(), "too much for one plan") {
			t.Errorf("pod %s has no place: %s", u.Pod, engine.Sentence(u.Reasons))
		}
	}
	if n := len(plan.Unplaced); n == 0 || n == pods/2 {
		t.Errorf("%d pods of %d are refused, want some", n, pods/2)
	}
	again := *s
	again.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(pod *corev1.Pod) bool {
		return !slices.ContainsFunc(plan.Unplaced, func(u engine.Unplaced) bool { return u.Pod.Name == pod.Name })
	})
	if next := provisioning.Plan(&again, engine.Options{}, nil); len(next.Unplaced) > 0 && len(next.Launches) == 0 {
		t.Errorf("none of the refused pods has a place when the others are out of the way")
	}
}

// Resources that no machine has are counted in one place, however many there are, and the reason of each pod names its own.
func TestResourcesThatNoMachineHasAreNamed(t *testing.T) {
	t.Parallel()
	const pods = 60
	s := withAsk(workload.Flexible(pods, 1, 0), func(i int, pod *corev1.Pod) {
		c := *pod.Spec.Containers[0].DeepCopy()
		c.Resources.Requests[corev1.ResourceName(fmt.Sprint("example.com/own-", i))] = resource.MustParse("3")
		pod.Spec.Containers = []corev1.Container{c}
	})
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Unplaced) != pods {
		t.Fatalf("%d pods of %d have no place", len(plan.Unplaced), pods)
	}
	for i, text := range reasonsOf(plan) {
		if want := fmt.Sprintf("needs 3 example.com/own-%d, no instance type has any", i); !strings.Contains(text, want) {
			t.Errorf("pod %s: %q, want %q", plan.Unplaced[i].Pod, text, want)
		}
	}
}
