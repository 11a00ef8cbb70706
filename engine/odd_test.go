package engine_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/scenario"
)

func snapshotOf(t *testing.T, text string) *engine.Snapshot {
	t.Helper()
	f, err := scenario.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return f.Snapshot
}

const twoMachines = `
pool general budget=100% limits=cpu:100
type two cpu=2 mem=4Gi price=0.05
node a pool=general type=two zone=a quiet=10m
node b pool=general type=two zone=a quiet=10m planned=web-1
pod old cpu=1 node=a
pods web x3 cpu=2
`

// Two nodes of one machine: the claim that would be deleted for the idle one is that of the busy one too.
func TestANodeIsKeptWhoseMachineHasAnotherNode(t *testing.T) {
	t.Parallel()
	s := snapshotOf(t, `
pool general budget=100%
type two cpu=2 mem=4Gi price=0.05
node a pool=general type=two zone=a quiet=10m
node b pool=general type=two zone=a quiet=10m
pod web cpu=1 node=a
`)
	s.Nodes[1].Spec.ProviderID = s.Nodes[0].Spec.ProviderID
	plan := engine.Disrupt(s, engine.Options{}, nil)
	if len(plan.Disruptions) > 0 {
		t.Fatalf("disrupts %v: web would be evicted", plan.Disruptions)
	}
	if !slices.ContainsFunc(plan.Kept, func(k engine.Kept) bool { return k.Node == "b" && k.Reason.Code == engine.SeveralNodes }) {
		t.Errorf("kept %v", plan.Kept)
	}
}

func TestClaimsWithOneProviderIDGiveOnePlan(t *testing.T) {
	t.Parallel()
	var plans []string
	for _, turned := range []bool{false, true} {
		s := snapshotOf(t, twoMachines)
		for _, c := range s.NodeClaims {
			c.Status.ProviderID = s.Nodes[0].Spec.ProviderID
		}
		if turned {
			slices.Reverse(s.NodeClaims)
		}
		plans = append(plans, text(t, engine.Provision(s, engine.Options{}, nil))+text(t, engine.Disrupt(s, engine.Options{}, nil)))
	}
	if plans[0] != plans[1] {
		t.Errorf("the order of the claims decides:\n%s\n%s", plans[0], plans[1])
	}
}

// A claim's requests are what its node must offer before it counts as initialized.
func TestAClaimDoesNotAskForWhatItsMachineCannotHave(t *testing.T) {
	t.Parallel()
	s := snapshotOf(t, `
pool general
type two cpu=2 mem=4Gi price=0.05
daemonset devices cpu=100m nvidia.com/gpu=1
pod web cpu=1
`)
	plan := engine.Provision(s, engine.Options{}, nil)
	if len(plan.Launches) != 1 {
		t.Fatalf("launches %v", plan.Launches)
	}
	requests := plan.Launches[0].Requests
	if cpu := requests[corev1.ResourceCPU]; cpu.String() != "1100m" {
		t.Errorf("asks for %s cpu, want 1100m", cpu.String())
	}
	if q, ok := requests["nvidia.com/gpu"]; ok {
		t.Errorf("asks for %s GPUs of a machine without any: it would never be initialized", q.String())
	}
}

// What the API server would not have let in, or not like this, must not stop the engine.
func TestOddObjectsDoNotStopTheEngine(t *testing.T) {
	t.Parallel()
	for name, odd := range map[string]func(s *engine.Snapshot){
		"pool without class":      func(s *engine.Snapshot) { s.NodePools[0].Spec.Template.Spec.NodeClassRef = nil },
		"claim without class":     func(s *engine.Snapshot) { s.NodeClaims[0].Spec.NodeClassRef = nil },
		"class of no pool":        func(s *engine.Snapshot) { s.Classes = nil },
		"class without types":     func(s *engine.Snapshot) { s.Classes[0].InstanceTypes = nil },
		"type without offerings":  func(s *engine.Snapshot) { s.Classes[0].InstanceTypes[0].Offerings = nil },
		"type without capacity":   func(s *engine.Snapshot) { s.Classes[0].InstanceTypes[0].Capacity = nil },
		"claim without status":    func(s *engine.Snapshot) { s.NodeClaims[0].Status = v1.NodeClaimStatus{} },
		"claim not launched":      func(s *engine.Snapshot) { s.NodeClaims[0].Status.Allocatable = nil },
		"claim without labels":    func(s *engine.Snapshot) { s.NodeClaims[0].Labels = nil },
		"node without labels":     func(s *engine.Snapshot) { s.Nodes[0].Labels = nil },
		"node without provider":   func(s *engine.Snapshot) { s.Nodes[0].Spec.ProviderID = "" },
		"node without status":     func(s *engine.Snapshot) { s.Nodes[0].Status = corev1.NodeStatus{} },
		"pod without containers":  func(s *engine.Snapshot) { s.Pods[1].Spec.Containers = nil },
		"empty affinity":          func(s *engine.Snapshot) { s.Pods[1].Spec.Affinity = &corev1.Affinity{} },
		"empty node affinity":     func(s *engine.Snapshot) { s.Pods[1].Spec.Affinity = affinity() },
		"empty term":              func(s *engine.Snapshot) { s.Pods[1].Spec.Affinity = affinity(corev1.NodeSelectorTerm{}) },
		"operator nobody knows":   func(s *engine.Snapshot) { s.Pods[1].Spec.Affinity = affinity(term("zone", "Near", "a")) },
		"number that is none":     func(s *engine.Snapshot) { s.Pods[1].Spec.Affinity = affinity(term("gen", "Gt", "many")) },
		"number missing":          func(s *engine.Snapshot) { s.Pods[1].Spec.Affinity = affinity(term("gen", "Lt")) },
		"budget that is no count": func(s *engine.Snapshot) { s.NodePools[0].Spec.Disruption.Budgets = []v1.Budget{{Nodes: "some"}} },
		"pdb without selector": func(s *engine.Snapshot) {
			s.PodDisruptionBudgets = append(s.PodDisruptionBudgets, &policyv1.PodDisruptionBudget{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := snapshotOf(t, twoMachines)
			odd(s)
			plan := engine.Provision(s, engine.Options{}, nil)
			if n := len(plan.Placements) + len(plan.Unplaced); n == 0 && len(plan.Launches) == 0 {
				t.Error("no pod was answered")
			}
			engine.Disrupt(s, engine.Options{}, nil)
			for _, l := range plan.Launches {
				engine.Check(l, s)
				engine.NewClaim(s.NodePools[0], l)
			}
		})
	}
}

func affinity(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

func term(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}
