package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// crewLabel distinguishes pods of DaemonSets from other pods, and from pods of other DaemonSets.
const crewLabel = "crew"

// withCrews relates the pods of a random cluster's DaemonSets to the waiting pods, in all possible ways.
func withCrews(seed uint64, s *engine.Snapshot) {
	r := rand.New(rand.NewPCG(seed, 53))
	apps := map[string][]*corev1.Pod{}
	var names []string
	for _, p := range scenariotest.Waiting(s) {
		if apps[p.Labels["app"]] == nil {
			names = append(names, p.Labels["app"])
		}
		apps[p.Labels["app"]] = append(apps[p.Labels["app"]], p)
	}
	if len(names) == 0 || len(s.DaemonSets) == 0 {
		return
	}
	key := func() string {
		return []string{corev1.LabelHostname, corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelArchStable}[r.IntN(4)]
	}
	term := func(label, value string) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{TopologyKey: key(), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: value}}}
	}
	for i, set := range s.DaemonSets {
		set.Spec.Template.Labels = map[string]string{crewLabel: fmt.Sprint(i), "tier": "edge"}
		spec := &set.Spec.Template.Spec
		if r.IntN(3) == 0 {
			apart := &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term("app", names[r.IntN(len(names))])}}
			if r.IntN(3) == 0 {
				apart.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels = map[string]string{crewLabel: fmt.Sprint(r.IntN(3))}
			}
			node := &corev1.Affinity{}
			if spec.Affinity != nil {
				node = spec.Affinity.DeepCopy()
			}
			node.PodAntiAffinity = apart
			spec.Affinity = node
		}
	}
	for _, name := range names {
		crew := fmt.Sprint(r.IntN(len(s.DaemonSets)))
		var change func(a *corev1.Affinity, spec *corev1.PodSpec)
		switch t := term(crewLabel, crew); r.IntN(8) {
		case 0, 1:
			change = func(a *corev1.Affinity, _ *corev1.PodSpec) {
				a.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{t}}
			}
		case 2, 3:
			change = func(a *corev1.Affinity, _ *corev1.PodSpec) {
				a.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{t}}
			}
		case 4:
			wish := []corev1.WeightedPodAffinityTerm{{Weight: 10, PodAffinityTerm: t}}
			change = func(a *corev1.Affinity, _ *corev1.PodSpec) {
				a.PodAffinity = &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: wish}
			}
		case 5:
			c := corev1.TopologySpreadConstraint{TopologyKey: key(), MaxSkew: 1 + r.Int32N(2), WhenUnsatisfiable: corev1.DoNotSchedule}
			c.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}
			self := r.IntN(2) == 0
			for _, p := range apps[name] {
				if p.Labels = map[string]string{"app": name}; self {
					p.Labels["tier"] = "edge"
				}
			}
			change = func(_ *corev1.Affinity, spec *corev1.PodSpec) {
				spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{c}
			}
		default:
			continue
		}
		for _, p := range apps[name] {
			a := &corev1.Affinity{}
			if p.Spec.Affinity != nil {
				a = p.Spec.Affinity.DeepCopy()
			}
			change(a, &p.Spec)
			p.Spec.Affinity = a
		}
	}
}

func TestPodsOfDaemonSetsAreThereFirstOnEveryNewNode(t *testing.T) {
	t.Parallel()
	tried, beside := map[string]int{}, 0
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		withCrews(seed, s)
		plan := provisioning.Plan(s, engine.Options{}, nil)
		backwards := slices.Clone(s.DaemonSets)
		slices.Reverse(backwards)
		for _, sets := range [][]*appsv1.DaemonSet{s.DaemonSets, backwards} {
			for name, pick := range map[string]func(int) int{
				"cheapest": func(int) int { return 0 }, "dearest": func(n int) int { return n - 1 }, "middle": func(n int) int { return n / 2 },
			} {
				for _, fault := range sequenceFaultsBehind(s, sets, plan, pick, tried) {
					t.Errorf("seed %d, %s offerings: %s", seed, name, fault)
				}
			}
		}
		c := &checker{s: s}
		for _, l := range plan.Launches {
			for _, id := range l.Pods {
				if a := c.pod(id).Spec.Affinity; a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 &&
					a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels[crewLabel] != "" {
					beside++
				}
			}
		}
	})
	t.Logf("checked: %v; %d pods are on new machines for the company of a DaemonSet's pod", tried, beside)
	if beside == 0 {
		t.Error("no machine is started for a pod that has to be beside a DaemonSet's pod")
	}
}
