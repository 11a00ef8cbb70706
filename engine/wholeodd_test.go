package engine_test

import (
	"math"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
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

// Two nodes of one machine have the same claim. If the claim were deleted for the idle node, the busy node would go too.
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
	plan := disruption.Plan(s, engine.Options{}, nil)
	if len(plan.Disruptions) > 0 {
		t.Fatalf("disrupts %v: web would be evicted", plan.Disruptions)
	}
	if !slices.ContainsFunc(plan.Kept, func(k engine.Kept) bool { return k.Node == "b" && k.Reason.Code == engine.SeveralNodes }) {
		t.Errorf("kept %v", plan.Kept)
	}
}

// Several nodes belong to a machine. None of them is registered, or only one. No pod will run on the others.
func TestNoPodIsExpectedOnAnotherNodeOfAMachine(t *testing.T) {
	t.Parallel()
	s := snapshotOf(t, `
pool general
type two cpu=2 mem=4Gi price=0.05
node a pool=general type=two zone=a
node b pool=general type=two zone=a unregistered
pod web cpu=1500m node=a
pod api cpu=1500m
`)
	s.Nodes[1].Spec.ProviderID, s.Nodes[1].CreationTimestamp = s.Nodes[0].Spec.ProviderID, s.Nodes[0].CreationTimestamp
	s.NodeClaims = s.NodeClaims[:1]
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) != 1 {
		t.Errorf("placed %v, launched %v; want a machine for api", plan.Placements, plan.Launches)
	}
}

// No pod runs on either node, so there is no gain in waiting until one of them is removed.
func TestAMachineGoesOfWhichAllNodesAreEmpty(t *testing.T) {
	t.Parallel()
	s := snapshotOf(t, `
pool general budget=100% consolidate-after=1m
type two cpu=2 mem=4Gi price=0.05
node a pool=general type=two zone=a quiet=10m
node b pool=general type=two zone=a quiet=10m
`)
	s.Nodes[1].Spec.ProviderID = s.Nodes[0].Spec.ProviderID
	s.NodeClaims = s.NodeClaims[:1]
	plan := disruption.Plan(s, engine.Options{}, nil)
	if len(plan.Disruptions) != 1 || !slices.Equal(plan.Disruptions[0].Claims, []string{"a"}) {
		t.Errorf("disrupts %v, want claim a once; kept %v", plan.Disruptions, plan.Kept)
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
		plans = append(plans, scenariotest.Text(t, provisioning.Plan(s, engine.Options{}, nil))+scenariotest.Text(t, disruption.Plan(s, engine.Options{}, nil)))
	}
	if plans[0] != plans[1] {
		t.Errorf("the order of the claims decides:\n%s\n%s", plans[0], plans[1])
	}
}

// A claim's requests are the resources that its node must have before it counts as initialized.
func TestAClaimDoesNotAskForWhatItsMachineCannotHave(t *testing.T) {
	t.Parallel()
	s := snapshotOf(t, `
pool general
type two cpu=2 mem=4Gi price=0.05
daemonset devices cpu=100m nvidia.com/gpu=1
pod web cpu=1
`)
	plan := provisioning.Plan(s, engine.Options{}, nil)
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

// Objects that the API server would refuse or change must not stop the engine.
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
		"pool with an odd taint":  func(s *engine.Snapshot) { s.NodePools[0].Spec.Template.Spec.Taints = []v1.Taint{{Effect: "Whatever"}} },
		"pdb without selector": func(s *engine.Snapshot) {
			s.PodDisruptionBudgets = append(s.PodDisruptionBudgets, &policyv1.PodDisruptionBudget{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := snapshotOf(t, twoMachines)
			odd(s)
			plan := provisioning.Plan(s, engine.Options{}, nil)
			if n := len(plan.Placements) + len(plan.Unplaced); n == 0 && len(plan.Launches) == 0 {
				t.Error("no pod was answered")
			}
			disruption.Plan(s, engine.Options{}, nil)
			for _, l := range plan.Launches {
				disruption.Check(l, s)
				kube.NewClaim(s.NodePools[0], l)
			}
		})
	}
}

const oddAndPlain = `
pool general limits=cpu:1000
type two cpu=2 mem=4Gi zones=a,b price=0.05
node n1 cpu=4 mem=8Gi zone=a
pod busy cpu=1 node=n1
daemonset agent cpu=100m
pod odd cpu=1
pods plain x5 cpu=1500m
`

// A fault of one object has a reason, and affects no other object: the plain pods always run.
func TestBadInputIsNobodyElsesFault(t *testing.T) {
	t.Parallel()
	two := func(s *engine.Snapshot) *engine.InstanceType { return &s.Classes[0].InstanceTypes[0] }
	for name, odd := range map[string]func(s *engine.Snapshot){
		"request below zero":             oddRequest("cpu", "-5"),
		"request beyond int64":           oddRequest("memory", "99999999999999999999"),
		"request of a million cores":     oddRequest("cpu", "1000000"),
		"request of nothing":             oddRequest("cpu", "0"),
		"request of an unknown resource": oddRequest("example.com/none", "1"),
		"request without a name":         oddRequest("", "1"),
		"overhead below zero":            func(s *engine.Snapshot) { oddPod(s).Spec.Overhead = amounts("cpu", "-1") },
		"pod level below zero":           func(s *engine.Snapshot) { oddPod(s).Spec.Resources = asking("cpu", "-1") },
		"init container beyond int64": func(s *engine.Snapshot) {
			c := corev1.Container{Name: "init", Resources: *asking("cpu", "9e30")}
			oddPod(s).Spec.InitContainers = []corev1.Container{c, c}
		},
		"two containers beyond int64": func(s *engine.Snapshot) {
			c := corev1.Container{Name: "more", Resources: *asking("memory", "9223372036854775807")}
			oddPod(s).Spec.Containers = []corev1.Container{c, c}
		},
		"huge pod that runs":       func(s *engine.Snapshot) { running(s).Spec.Containers[0].Resources = *asking("memory", "9e30") },
		"negative pod that runs":   func(s *engine.Snapshot) { running(s).Spec.Containers[0].Resources = *asking("cpu", "-1000") },
		"pod on an unknown node":   func(s *engine.Snapshot) { running(s).Spec.NodeName = "nowhere" },
		"node without room":        func(s *engine.Snapshot) { s.Nodes[0].Status.Allocatable = amounts("cpu", "-4") },
		"node beyond int64":        func(s *engine.Snapshot) { s.Nodes[0].Status.Allocatable = amounts("cpu", "9e30") },
		"node with broken labels":  func(s *engine.Snapshot) { s.Nodes[0].Labels = brokenLabels() },
		"node without a name":      func(s *engine.Snapshot) { s.Nodes[0].Name = "" },
		"node in a zone of nobody": func(s *engine.Snapshot) { s.Nodes[0].Labels[corev1.LabelTopologyZone] = "" },
		"two nodes of one name":    func(s *engine.Snapshot) { s.Nodes = append(s.Nodes, s.Nodes[0].DeepCopy()) },
		"pod with broken labels":   func(s *engine.Snapshot) { oddPod(s).Labels = brokenLabels() },
		"selector for no label":    func(s *engine.Snapshot) { oddPod(s).Spec.NodeSelector = brokenLabels() },
		"toleration of nothing": func(s *engine.Snapshot) {
			oddPod(s).Spec.Tolerations = []corev1.Toleration{{}, {Operator: "Maybe"}, {Key: "x", Operator: corev1.TolerationOpExists, Value: "y"}}
		},
		"port that does not exist": oddPort(99999),
		"port below zero":          oddPort(-1),
		"spread below zero":        oddSpread(-1, "zone"),
		"spread over nothing":      oddSpread(1, ""),
		"spread over an odd label": oddSpread(1, "no label/at all"),
		"spread that never ends":   oddSpread(1<<30, corev1.LabelTopologyZone),
		"affinity over nothing":    oddAffinity(corev1.PodAffinityTerm{}),
		"affinity without an end":  oddAffinity(corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}}),
		"price that is no number":  func(s *engine.Snapshot) { two(s).Offerings[0].Price = math.NaN() },
		"price without end":        func(s *engine.Snapshot) { two(s).Offerings[0].Price = math.Inf(1) },
		"price below zero":         func(s *engine.Snapshot) { two(s).Offerings[0].Price = -1 },
		"price missing":            func(s *engine.Snapshot) { two(s).Offerings[0].Price = 0 },
		"offering without a zone":  func(s *engine.Snapshot) { two(s).Offerings[0].Zone = "" },
		"offering without kind":    func(s *engine.Snapshot) { two(s).Offerings[0].CapacityType = "" },
		"type without a name":      func(s *engine.Snapshot) { addType(s, engine.InstanceType{Offerings: two(s).Offerings}) },
		"type of nothing":          func(s *engine.Snapshot) { addType(s, engine.InstanceType{Name: "none"}) },
		"type below zero": func(s *engine.Snapshot) {
			addType(s, engine.InstanceType{Name: "less", Capacity: amounts("cpu", "-1"), Offerings: two(s).Offerings})
		},
		"overhead above capacity": func(s *engine.Snapshot) {
			addType(s, engine.InstanceType{Name: "less", Overhead: amounts("cpu", "9e9"), Offerings: two(s).Offerings})
		},
		"type twice":         func(s *engine.Snapshot) { addType(s, *two(s)) },
		"limit beyond int64": func(s *engine.Snapshot) { s.NodePools[0].Spec.Limits = v1.Limits(amounts("cpu", "9e30")) },
		"daemon below zero": func(s *engine.Snapshot) {
			s.DaemonSets[0].Spec.Template.Spec.Containers[0].Resources = *asking("cpu", "-1")
		},
		"daemon without selector": func(s *engine.Snapshot) { s.DaemonSets[0].Spec.Selector = nil },
		"pool weight below zero":  func(s *engine.Snapshot) { s.NodePools[0].Spec.Weight = ptr.To[int32](-1) },
		"pool that wants minus values": func(s *engine.Snapshot) {
			s.NodePools[0].Spec.Template.Spec.Requirements = []v1.Requirement{{Key: corev1.LabelTopologyZone, Operator: v1.Exists, MinValues: ptr.To(-3)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := snapshotOf(t, oddAndPlain)
			odd(s)
			plan := provisioning.Plan(s, engine.Options{}, nil)
			if n := len(answers(plan)); n != 6 {
				t.Errorf("%d of 6 pods were answered, or some twice", n)
			}
			for _, u := range plan.Unplaced {
				if u.Pod.Name != "odd" {
					t.Errorf("%s pays for it: %v", u.Pod, u.Reasons)
				}
				if len(u.Reasons) == 0 || u.Reasons[0].Message() == "" {
					t.Errorf("%s has no reason", u.Pod)
				}
			}
			disruption.Plan(s, engine.Options{}, nil)
		})
	}
}

// answers holds each pod that the plan places or refuses exactly once.
func answers(plan *engine.Plan) map[engine.PodID]bool {
	out := map[engine.PodID]bool{}
	add := func(id engine.PodID) {
		if out[id] {
			delete(out, id)
			return
		}
		out[id] = true
	}
	for _, l := range plan.Launches {
		for _, id := range l.Pods {
			add(id)
		}
	}
	for _, p := range plan.Placements {
		add(p.Pod)
	}
	for _, u := range plan.Unplaced {
		add(u.Pod)
	}
	return out
}

func running(s *engine.Snapshot) *corev1.Pod { return s.Pods[0] }

func oddPod(s *engine.Snapshot) *corev1.Pod { return s.Pods[1] }

func addType(s *engine.Snapshot, t engine.InstanceType) {
	s.Classes[0].InstanceTypes = append(s.Classes[0].InstanceTypes, t)
}

func amounts(name corev1.ResourceName, amount string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(amount)}
}

func asking(name corev1.ResourceName, amount string) *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{Requests: amounts(name, amount)}
}

func brokenLabels() map[string]string {
	return map[string]string{"": "x", "a/b/c": "y", "zone": "no value", corev1.LabelTopologyZone: "a b"}
}

func oddRequest(name corev1.ResourceName, amount string) func(s *engine.Snapshot) {
	return func(s *engine.Snapshot) { oddPod(s).Spec.Containers[0].Resources = *asking(name, amount) }
}

func oddPort(port int32) func(s *engine.Snapshot) {
	return func(s *engine.Snapshot) {
		oddPod(s).Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port}}
	}
}

func oddSpread(skew int32, key string) func(s *engine.Snapshot) {
	return func(s *engine.Snapshot) {
		oddPod(s).Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{}},
		}
	}
}

func oddAffinity(term corev1.PodAffinityTerm) func(s *engine.Snapshot) {
	return func(s *engine.Snapshot) {
		terms := []corev1.PodAffinityTerm{term}
		oddPod(s).Spec.Affinity = &corev1.Affinity{
			PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms},
		}
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
