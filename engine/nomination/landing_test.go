package nomination_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/nomination"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// There are two machines of 4 cores, each planned full: 3+1 and 2+2. By kube-scheduler's scores, the small pods spread out first.
func TestHintsBringAPlanDownAsPlanned(t *testing.T) {
	t.Parallel()
	s, plan := tightPlan(t)
	hinted := nomination.Land(s, engine.Options{}, plan, true)
	if got := scenariotest.Landed(hinted); got != "m-1: big-1 small-1; m-2: mid-1 mid-2" {
		t.Errorf("hinted, landed as %q", got)
	}
	if !near(hinted.PerHour, 0.2) || !slices.Equal(hinted.Used, []string{"m-1", "m-2"}) {
		t.Errorf("hinted, costs %v, uses %v", hinted.PerHour, hinted.Used)
	}
	// small-1 takes either machine, mid-1 the other, mid-2 joins small-1 (25 left rather than 0), and big-1 has no room.
	free := nomination.Land(s, engine.Options{}, plan, false)
	if len(free.Stranded) != 1 || free.Stranded[0].Name != "big-1" {
		t.Errorf("unhinted, landed as %q", scenariotest.Landed(free))
	}
	if !near(free.PerHour, 0.3) {
		t.Errorf("unhinted, costs %v, want a third machine: 0.3", free.PerHour)
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

func tightPlan(t *testing.T) (*engine.Snapshot, *engine.Plan) {
	t.Helper()
	s := scenariotest.Cluster(t, "pool m", "type four cpu=4 mem=64Gi zones=a price=0.1",
		"pods small x1 cpu=1 mem=1Gi age=9m", "pods mid x2 cpu=2 mem=1Gi age=8m", "pods big x1 cpu=3 mem=1Gi age=7m")
	id := map[string]engine.PodID{}
	for _, p := range s.Pods {
		id[p.Name] = scenariotest.ID(p)
	}
	launch := func(name string, pods ...string) engine.Launch {
		l := engine.Launch{Name: name, NodePool: "m", Price: 0.1, InstanceTypes: []string{"four"},
			Offerings: []engine.LaunchOffering{{OfferingID: engine.OfferingID{InstanceType: "four", Zone: "a", CapacityType: "on-demand"}, Price: 0.1}}}
		for _, p := range pods {
			l.Pods = append(l.Pods, id[p])
		}
		return l
	}
	return s, &engine.Plan{Launches: []engine.Launch{launch("m-1", "big-1", "small-1"), launch("m-2", "mid-1", "mid-2")}}
}

// kube-scheduler may bind a pod that is planned for an existing node first, but it reserves the room of nominated pods.
func TestRoomOfNominatedPodsIsKept(t *testing.T) {
	t.Parallel()
	s, plan := tightPlan(t)
	more := scenariotest.Cluster(t, "node n1 cpu=2 mem=4Gi", "pod early cpu=1 mem=1Gi age=1h")
	s.Nodes, s.Pods = more.Nodes, append(s.Pods, more.Pods...)
	plan.Placements = []engine.Placement{{Pod: scenariotest.ID(more.Pods[0]), Node: "n1"}}
	if got := scenariotest.Landed(nomination.Land(s, engine.Options{}, plan, true)); got != "m-1: big-1 small-1; m-2: mid-1 mid-2; n1: early" {
		t.Errorf("landed as %q", got)
	}
}

func TestPodsOfAStartingMachineAreHintedToIt(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool m", "type four cpu=4 mem=64Gi zones=a price=0.1", "node n1 cpu=8 mem=64Gi",
		"claim c1 pool=m type=four zone=a planned=p-1,p-2", "pods p x2 cpu=2 mem=1Gi")
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if got := scenariotest.Landed(nomination.Land(s, engine.Options{}, plan, true)); got != "c1: p-1 p-2" {
		t.Errorf("hinted, landed as %q", got)
	}
	// With the first pod, the machine of 8 cores keeps a larger share free than the machine of 4. With the second pod too, either would keep
	// half.
	if got := scenariotest.Landed(nomination.Land(s, engine.Options{}, plan, false)); !strings.Contains(got, "n1: p-1") {
		t.Errorf("unhinted, landed as %q", got)
	}
}

func TestWhereNobodyIsNominatedAPlanIsExpectedToLandWithoutHints(t *testing.T) {
	t.Parallel()
	s, plan := tightPlan(t)
	off := engine.Options{NoNominations: true}
	if got, want := scenariotest.Landed(nomination.Land(s, off, plan, true)), scenariotest.Landed(nomination.Land(s, engine.Options{}, plan, false)); got != want {
		t.Errorf("landed as %q, want %q", got, want)
	}
	nomination.Foresee(s, off, plan)
	if plan.Cost.Expected != plan.Cost.Unhinted || plan.Cost.Expected <= 0.2 {
		t.Errorf("expected %v, without nominations %v", plan.Cost.Expected, plan.Cost.Unhinted)
	}
}

// The constraints of a pod do not depend on the order in which pods are bound, except for room, which hints reserve.
func orderFree(s *engine.Snapshot) bool {
	return !slices.ContainsFunc(s.Pods, func(p *corev1.Pod) bool {
		a := p.Spec.Affinity
		return len(p.Spec.TopologySpreadConstraints) > 0 || a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
	})
}

func TestHintedPodsAreNeverStrandedWhereOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	tried := 0
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		if !orderFree(s) {
			return
		}
		runs := map[engine.PodID]bool{}
		for _, p := range s.Pods {
			runs[scenariotest.ID(p)] = p.Spec.NodeName != ""
		}
		plan := provisioning.Plan(s, engine.Options{}, nil)
		l := nomination.Land(s, engine.Options{}, plan, true)
		at := map[engine.PodID]string{}
		for _, p := range l.Placements {
			at[p.Pod] = p.Node
		}
		for _, launch := range plan.Launches {
			for _, pod := range launch.Pods {
				if runs[pod] {
					continue
				}
				tried++
				if at[pod] != launch.Name {
					t.Errorf("seed %d: %s lands on %q, not on %s", seed, pod, at[pod], launch.Name)
				}
			}
		}
		if len(l.Stranded) == 0 && !near(l.PerHour, plan.Cost.LaunchesPerHour) {
			t.Errorf("seed %d: costs %v, the plan %v", seed, l.PerHour, plan.Cost.LaunchesPerHour)
		}
	})
	if tried == 0 {
		t.Error("no pod was planned for a new machine")
	}
}

func TestALandingAccountsForEveryPlannedPod(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		plan := provisioning.Plan(s, engine.Options{}, nil)
		planned := len(plan.Placements)
		for _, l := range plan.Launches {
			planned += len(l.Pods)
		}
		l := nomination.Land(s, engine.Options{}, plan, false)
		if len(l.Placements)+len(l.Stranded) != planned {
			t.Errorf("seed %d: %d landed, %d stranded of %d", seed, len(l.Placements), len(l.Stranded), planned)
		}
		if l.PerHour < plan.Cost.LaunchesPerHour-1e-9 {
			t.Errorf("seed %d: costs %v, less than what is launched, %v", seed, l.PerHour, plan.Cost.LaunchesPerHour)
		}
		if want, got := fmt.Sprint(l), fmt.Sprint(nomination.Land(scenariotest.Shuffle(s, seed), engine.Options{}, plan, false)); got != want {
			t.Errorf("seed %d: another landing for another order of the input", seed)
		}
	})
}
