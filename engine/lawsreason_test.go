package engine_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/workload"
)

// A reason names what is there: without just that constraint the pod has a place, or is refused for something else. No pool has
// reached a limit that it does not have.
func TestWithoutWhatARefusalNamesItIsAnother(t *testing.T) {
	t.Parallel()
	tried := map[engine.Code]int{}
	law := func(seed uint64, s *engine.Snapshot) {
		plan := provisioning.Plan(s, engine.Options{}, nil)
		seen := map[engine.Reason]bool{}
		for _, u := range plan.Unplaced {
			for _, r := range u.Reasons {
				without := withoutConstraint(s, u.Pod, r)
				if without == nil || seen[r] {
					continue
				}
				seen[r] = true
				tried[r.Code]++
				for _, still := range reasonsFor(provisioning.Plan(without, engine.Options{}, nil), u.Pod) {
					if still.Code == r.Code && still.NodePool == r.NodePool && still.Key == r.Key {
						t.Errorf("seed %d, %s: without it, the pod is refused for the same: %s", seed, r, still)
					}
				}
			}
		}
	}
	for seed := range enginetest.Draws(60) {
		law(seed, scenario.Random(seed, scenario.Size{Topology: true}))
	}
	for seed := range enginetest.Draws(8) {
		law(seed, workload.Flexible(30, seed, 4))
	}
	t.Logf("reasons tried: %v", tried)
	for _, code := range []engine.Code{engine.LimitReached, engine.MinValuesNotMet, engine.SpreadNotMet, engine.AntiAffinityNotMet, engine.AffinityNotMet} {
		if tried[code] == 0 && enginetest.Draws(60) == 60 {
			t.Errorf("no pod is refused for %s: the law says nothing of it", code)
		}
	}
}

func reasonsFor(plan *engine.Plan, pod engine.PodID) []engine.Reason {
	for _, u := range plan.Unplaced {
		if u.Pod == pod {
			return u.Reasons
		}
	}
	return nil
}

// withoutConstraint is the cluster without the constraint that a refusal names; nil if the reason names none that can be taken
// away.
func withoutConstraint(s *engine.Snapshot, id engine.PodID, r engine.Reason) *engine.Snapshot {
	out := *s
	out.Pods, out.NodePools = slices.Clone(s.Pods), slices.Clone(s.NodePools)
	pool := func(change func(*v1.NodePool)) {
		for i, p := range out.NodePools {
			if p.Name == r.NodePool {
				out.NodePools[i] = p.DeepCopy()
				change(out.NodePools[i])
			}
		}
	}
	pod := func(change func(*corev1.PodSpec)) {
		for i, p := range out.Pods {
			if p.UID == id.UID {
				out.Pods[i] = p.DeepCopy()
				change(&out.Pods[i].Spec)
			}
		}
	}
	switch r.Code {
	case engine.LimitReached:
		pool(func(p *v1.NodePool) { p.Spec.Limits = nil })
	case engine.MinValuesNotMet:
		pool(func(p *v1.NodePool) {
			for i := range p.Spec.Template.Spec.Requirements {
				p.Spec.Template.Spec.Requirements[i].MinValues = nil
			}
		})
	case engine.SpreadNotMet:
		pod(func(p *corev1.PodSpec) { p.TopologySpreadConstraints = nil })
	case engine.AffinityNotMet:
		pod(func(p *corev1.PodSpec) { p.Affinity.PodAffinity = nil })
	case engine.TaintNotTolerated:
		pool(func(p *v1.NodePool) { p.Spec.Template.Spec.Taints = nil })
	case engine.AntiAffinityNotMet:
		pod(func(p *corev1.PodSpec) { p.Affinity = nil })
		for i, other := range out.Pods { // of others too, who keep it away
			if other.Spec.Affinity != nil {
				out.Pods[i] = other.DeepCopy()
				out.Pods[i].Spec.Affinity.PodAntiAffinity = nil
			}
		}
	default:
		return nil
	}
	return &out
}
