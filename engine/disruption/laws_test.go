package disruption_test

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
)

func TestNoBudgetIsExceeded(t *testing.T) {
	t.Parallel()
	disrupted := 0
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		gone := map[string]int{}
		for _, d := range disruption.Plan(s, engine.Options{}, nil).Disruptions {
			for _, claim := range d.Claims {
				gone[poolOfClaim(s, claim)]++
				disrupted++
			}
		}
		for _, pool := range s.NodePools {
			if n, most := gone[pool.Name], plainAllowance(s, pool); n > most {
				t.Errorf("seed %d: %d nodes of pool %s are disrupted, its budgets allow %d", seed, n, pool.Name, most)
			}
		}
	})
	if disrupted == 0 {
		t.Error("the random clusters have no node to disrupt: they prove nothing")
	}
}

func TestThreadsDoNotChangeWhatIsDisrupted(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		want := scenariotest.Text(t, disruption.Plan(s, engine.Options{}, nil))
		if got := scenariotest.Text(t, disruption.Plan(s, engine.Options{Threads: 4}, nil)); got != want {
			t.Errorf("seed %d: with four threads another plan:\n%s", seed, scenariotest.FirstDifference(got, want))
		}
	})
}

func TestEmptyNodesThatGoRunNothingThatWouldHaveToMove(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		for _, d := range disruption.Plan(s, engine.Options{}, nil).Disruptions {
			if d.Reason != v1.Empty {
				continue
			}
			for _, p := range s.Pods {
				if p.Spec.NodeName != d.Nodes[0] || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
					continue
				}
				if len(p.OwnerReferences) == 0 || p.OwnerReferences[0].Kind != "DaemonSet" {
					t.Errorf("seed %d: node %s goes as empty, but runs %s", seed, d.Nodes[0], p.Name)
				}
			}
		}
	})
}

func poolOfClaim(s *engine.Snapshot, name string) string {
	for _, c := range s.NodeClaims {
		if c.Name == name {
			return c.Labels[v1.NodePoolLabelKey]
		}
	}
	return ""
}

// plainAllowance returns how many more nodes the pool's budgets, which have no schedule, let go.
func plainAllowance(s *engine.Snapshot, pool *v1.NodePool) int {
	total, going := 0, 0
	for _, n := range s.Nodes {
		if n.Labels[v1.NodePoolLabelKey] != pool.Name || n.Labels[v1.InitializedLabelKey] != "true" {
			continue
		}
		total++
		if n.DeletionTimestamp != nil || n.Status.Conditions[0].Status != corev1.ConditionTrue {
			going++
		}
	}
	most := math.MaxInt
	for _, b := range pool.Spec.Disruption.Budgets {
		n, err := strconv.Atoi(strings.TrimSuffix(b.Nodes, "%"))
		if err != nil {
			return 0
		}
		if strings.HasSuffix(b.Nodes, "%") {
			n = (total*n + 99) / 100
		}
		most = min(most, n)
	}
	return max(0, most-going)
}

func TestNobodyIsStrandedByReplacingDriftedNodes(t *testing.T) {
	t.Parallel()
	replaced, moved := 0, 0
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		s = scenariotest.Drifting(s)
		plan := disruption.Plan(s, engine.Options{}, nil)
		moving := map[string]bool{}
		for _, d := range plan.Disruptions {
			for _, id := range d.Pods {
				moving[id.String()] = true
			}
			replaced += len(d.Replacements)
		}
		moved += len(moving)
		after := provisioning.Plan(scenario.CarryOut(s, plan), engine.Options{}, nil)
		for _, u := range after.Unplaced {
			if moving[u.Pod.String()] {
				t.Errorf("seed %d: %s has no place after the nodes have gone: %v", seed, u.Pod, u.Reasons)
			}
		}
		for _, l := range after.Launches {
			for _, id := range l.Pods {
				if moving[id.String()] {
					t.Errorf("seed %d: %s needs one more machine after the nodes have gone", seed, id)
				}
			}
		}
	})
	if replaced == 0 || moved == 0 {
		t.Errorf("%d replacements and %d pods that move prove nothing", replaced, moved)
	}
}

func TestNoBudgetIsExceededByReplacingDriftedNodes(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		s = scenariotest.Drifting(s)
		gone, seen := map[string]int{}, map[string]bool{}
		for _, d := range disruption.Plan(s, engine.Options{}, nil).Disruptions {
			for _, claim := range d.Claims {
				gone[poolOfClaim(s, claim)]++
				if seen[claim] {
					t.Errorf("seed %d: claim %s goes twice", seed, claim)
				}
				seen[claim] = true
			}
		}
		for _, pool := range s.NodePools {
			if n, most := gone[pool.Name], plainAllowance(s, pool); n > most {
				t.Errorf("seed %d: %d nodes of pool %s are disrupted, its budgets allow %d", seed, n, pool.Name, most)
			}
		}
	})
}

// If a pod is to move to a replacement, the replacement lists the pod, even if a pass begins many replacements.
func TestMovesNameTheReplacementThatIsForTheirPod(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general budget=100%", "type two cpu=2 mem=4Gi zones=a,b price=0.05", "type huge cpu=64 mem=128Gi zones=a,b price=3",
		"node n1 pool=general type=two zone=a quiet=1h drifted=2h", "pod a cpu=1900m node=n1 age=5h select=topology.kubernetes.io/zone:a",
		"node n2 pool=general type=huge zone=b quiet=1h", "pod b cpu=1900m node=n2 age=5h select=topology.kubernetes.io/zone:b")
	got := map[string]string{}
	for _, d := range disruption.Plan(s, engine.Options{}, nil).Disruptions {
		for _, l := range d.Replacements {
			for _, m := range d.Moves {
				if m.Node != l.Name || !slices.Contains(l.Pods, m.Pod) {
					t.Errorf("%s is to move to %s, and replacement %s is for %v", m.Pod, m.Node, l.Name, l.Pods)
				}
			}
			got[l.Name] = d.Nodes[0]
		}
	}
	if len(got) != 2 {
		t.Errorf("replacements %v, want one for each of the two nodes", got)
	}
}

func TestEveryMachineThatStaysSaysWhy(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		s = scenariotest.Drifting(s)
		plan := disruption.Plan(s, engine.Options{}, nil)
		said := map[string]int{}
		for _, k := range plan.Kept {
			said[k.Claim]++
			if k.Reason.OK() || k.Reason.Message() == string(k.Reason.Code) {
				t.Errorf("seed %d: %s stays for no reason in words: %+v", seed, k.Node, k.Reason)
			}
		}
		for _, d := range plan.Disruptions {
			for _, c := range d.Claims {
				said[c]++
			}
		}
		for _, c := range s.NodeClaims {
			if said[c.Name] != 1 {
				t.Errorf("seed %d: claim %s is mentioned %d times", seed, c.Name, said[c.Name])
			}
		}
	})
}

// A machine that the cloud is stopping has left the pool already: half of eight machines may go, not half of ten, and the machine uses up no
// budget.
func TestMachinesThatAreBeingStoppedCountInNoBudget(t *testing.T) {
	t.Parallel()
	lines := []string{"pool general budget=50%", "type two cpu=2 mem=4Gi price=0.05"}
	for i := range 10 {
		lines = append(lines, "node n"+strconv.Itoa(i)+" pool=general type=two zone=a quiet=10m")
	}
	file, err := scenario.Parse(strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := file.Snapshot
	for i := range 2 {
		s.NodeClaims[i] = s.NodeClaims[i].DeepCopy()
		v1.SetCondition(s.NodeClaims[i], v1.ConditionInstanceTerminating, metav1.ConditionTrue, "", "", s.Now)
	}
	if n := len(disruption.Plan(s, engine.Options{}, nil).Disruptions); n != 4 {
		t.Errorf("%d of 8 nodes go, 4 are allowed", n)
	}
}
