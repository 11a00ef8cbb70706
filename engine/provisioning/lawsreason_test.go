package provisioning_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/workload"
)

// A refusal names constraints that exist, and all that are in the way: without just one of them the pod has a place, or the pool refuses it
// for the others that were named. It names no limit that the pool does not have. No machine of the pool is started in spite of the others,
// unless they depend on other pods: a limit does not matter on a machine that is started for other pods anyway.
func TestWithoutWhatARefusalNamesTheRestOfItIsLeft(t *testing.T) {
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
				other := provisioning.Plan(without, engine.Options{}, nil)
				if !slices.Equal(placesOfOthers(plan, u.Pod), placesOfOthers(other, u.Pod)) {
					continue // something else keeps the pod off there
				}
				tried[r.Code]++
				if slices.ContainsFunc(other.Launches, func(l engine.Launch) bool { return l.NodePool == r.NodePool && slices.Contains(l.Pods, u.Pod) }) {
					for _, beside := range u.Reasons {
						if beside.NodePool == r.NodePool && beside != r && slices.Contains(ofPoolAlone, beside.Code) {
							t.Errorf("seed %d, pod %s: without %s, a machine of the pool is started for it, although %s", seed, u.Pod, r, beside)
						}
					}
				}
				for _, still := range reasonsFor(other, u.Pod) {
					if still.NodePool == r.NodePool && !named(u.Reasons, r, still) {
						t.Errorf("seed %d, pod %s, %s: without it, the pod is refused for what was not named: %s", seed, u.Pod, r, still)
					}
				}
			}
		}
	}
	for seed := range enginetest.Draws(250) {
		law(seed, scenario.Random(seed, scenario.Size{Topology: true}))
	}
	for seed := range enginetest.Few(8) {
		law(seed, workload.Flexible(30, seed, 4))
	}
	t.Logf("reasons tried: %v", tried)
	for _, code := range []engine.Code{
		engine.TaintNotTolerated, engine.LabelMismatch, engine.LabelNotDefined, engine.NotEnoughResources, engine.LimitReached, engine.MinValuesNotMet,
		engine.SpreadNotMet, engine.AntiAffinityNotMet, engine.AffinityNotMet,
	} {
		if tried[code] == 0 && enginetest.Draws(250) == 250 {
			t.Errorf("no pod is refused for %s: the law says nothing of it", code)
		}
	}
}

// ofPoolAlone are the reasons that depend on the pod and the pool alone.
var ofPoolAlone = []engine.Code{engine.TaintNotTolerated, engine.LabelMismatch, engine.LabelNotDefined, engine.NotEnoughResources, engine.MinValuesNotMet}

// named reports whether a reason that remains after another one is taken away was among the reasons before. Reasons about several rules together, or
// about the wait for a cheaper offering, show only once the others are gone.
func named(all []engine.Reason, without, left engine.Reason) bool {
	if left.Code == engine.ConstraintsConflict || left.Code == engine.CheaperSoldOut || strings.Contains(left.Have, ", since ") {
		return true
	}
	return slices.ContainsFunc(all, func(r engine.Reason) bool {
		return r != without && r.NodePool == left.NodePool && (r.Code == left.Code && r.Key == left.Key || r.Code == engine.AffinityCycle && left.Code == engine.AffinityNotMet)
	})
}

// placesOfOthers returns the places of all pods but one.
func placesOfOthers(plan *engine.Plan, but engine.PodID) (out []string) {
	for _, p := range plan.Placements {
		if p.Pod != but {
			out = append(out, p.Pod.String()+" on "+p.Node+p.Claim)
		}
	}
	for _, l := range plan.Launches {
		for _, pod := range l.Pods {
			if pod != but {
				out = append(out, pod.String()+" on "+l.NodePool+" "+l.Offerings[0].String())
			}
		}
	}
	slices.Sort(out)
	return out
}

func reasonsFor(plan *engine.Plan, pod engine.PodID) []engine.Reason {
	for _, u := range plan.Unplaced {
		if u.Pod == pod {
			return u.Reasons
		}
	}
	return nil
}

// withoutConstraint returns the cluster without the constraint that a refusal names. It returns nil if the refusal names none that can be taken
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
	case engine.NotEnoughResources:
		pod(func(p *corev1.PodSpec) {
			for _, c := range slices.Concat(p.Containers, p.InitContainers) { // the maps are the copy's own
				delete(c.Resources.Requests, corev1.ResourceName(r.Key))
				delete(c.Resources.Limits, corev1.ResourceName(r.Key))
			}
			delete(p.Overhead, corev1.ResourceName(r.Key))
			if p.Resources != nil {
				delete(p.Resources.Requests, corev1.ResourceName(r.Key))
			}
		})
	case engine.LabelMismatch, engine.LabelNotDefined:
		pod(func(p *corev1.PodSpec) {
			delete(p.NodeSelector, r.Key)
			if p.Affinity == nil || p.Affinity.NodeAffinity == nil || p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
				return
			}
			for i, term := range p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
				p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[i].MatchExpressions =
					slices.DeleteFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool { return e.Key == r.Key })
			}
		})
	case engine.AffinityNotMet:
		pod(func(p *corev1.PodSpec) { p.Affinity.PodAffinity = nil })
	case engine.TaintNotTolerated:
		pod(func(p *corev1.PodSpec) {
			p.Tolerations = append(p.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
		})
	case engine.AntiAffinityNotMet:
		pod(func(p *corev1.PodSpec) { p.Affinity = nil })
		for i, other := range out.Pods { // other pods keep it away too
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

// A label that no machine has and that a pod avoids is no obstacle, however many values its alternatives name. A pod may name any number of
// labels, and a refusal does not name them all.
func TestARefusalIsBoundedAndNamesNoLabelThatIsNoHindrance(t *testing.T) {
	t.Parallel()
	f, err := scenario.Parse("catalog kwok\npool general labels=team:a capacity in (on-demand)\npod web cpu=1")
	if err != nil {
		t.Fatal(err)
	}
	var many []corev1.NodeSelectorRequirement
	for _, key := range numberedValues("example.com/own", 200) {
		many = append(many, expecting(key, corev1.NodeSelectorOpExists))
	}
	for _, terms := range [][]corev1.NodeSelectorTerm{
		{
			{MatchExpressions: []corev1.NodeSelectorRequirement{expecting(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "mars"), expecting("example.com/none", corev1.NodeSelectorOpNotIn, "y")}},
			{MatchExpressions: []corev1.NodeSelectorRequirement{expecting("team", corev1.NodeSelectorOpIn, numberedValues("v", 200)...)}},
		},
		{{MatchExpressions: many}},
	} {
		s := withAsk(f.Snapshot, func(_ int, pod *corev1.Pod) {
			pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
		})
		reasons := provisioning.Plan(s, engine.Options{}, nil).Unplaced[0].Reasons
		if len(reasons) == 0 || len(reasons) > 8 {
			t.Errorf("%d reasons", len(reasons))
		}
		if len(terms) == 2 && (len(reasons) != 1 || reasons[0].Code != engine.LabelMismatch || reasons[0].Key != corev1.LabelTopologyZone) {
			t.Errorf("the zone is all that it lacks, and it is refused for %v", reasons)
		}
	}
}
