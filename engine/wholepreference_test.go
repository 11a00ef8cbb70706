package engine_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/workload"
)

// Preferences of pods never keep pods from being placed, for any requirements of the pools: minValues of zones, families and types, limits,
// taints, weights.
func TestPreferencesLeaveNoPodWithoutAPlace(t *testing.T) {
	t.Parallel()
	law := func(t *testing.T, seed uint64, s *engine.Snapshot) {
		without := *s
		without.Pods = nil
		for _, pod := range s.Pods {
			without.Pods = append(without.Pods, withoutPreferences(pod))
		}
		for _, policy := range []engine.PreferencePolicy{engine.Respect, engine.Weighted} {
			opt := engine.Options{Preferences: policy}
			with, plain := provisioning.Plan(s, opt, nil), provisioning.Plan(&without, opt, nil)
			if len(with.Unplaced) > len(plain.Unplaced) {
				t.Errorf("seed %d, %s: %d pods have no place, without preferences %d: %v", seed, policy, len(with.Unplaced), len(plain.Unplaced), with.Unplaced)
			}
		}
	}
	for seed := range enginetest.Draws(400) {
		law(t, seed, scenario.Random(seed, scenario.Size{Topology: true}))
	}
	for seed := range enginetest.Draws(40) {
		law(t, seed, workload.Flexible(30, seed, int(seed%4)+1))
	}
}

func withoutPreferences(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	kept := pod.Spec.TopologySpreadConstraints[:0]
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			kept = append(kept, c)
		}
	}
	pod.Spec.TopologySpreadConstraints = kept
	if a := pod.Spec.Affinity; a != nil {
		if a.NodeAffinity != nil {
			a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = nil
		}
		if a.PodAffinity != nil {
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = nil
		}
		if a.PodAntiAffinity != nil {
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = nil
		}
	}
	return pod
}
