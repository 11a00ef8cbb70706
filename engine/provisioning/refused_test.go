package provisioning_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

const schedulerWords = "0/1 nodes are available: 1 node(s) did not please a plugin."

// says sets kube-scheduler's message on the first pod's condition PodScheduled, and lets the snapshot keep the expectations of plans.
func says(s *engine.Snapshot) {
	for i := range s.Pods[0].Status.Conditions {
		if c := &s.Pods[0].Status.Conditions[i]; c.Type == corev1.PodScheduled {
			c.Message = schedulerWords
		}
	}
	s.ExpectedPods = map[string]engine.ExpectedPod{}
}

// kube-scheduler may refuse a pod for a reason that no plan knows. The pod is expected on the node for some tries, and then gets a machine.
func TestAPodThatIsRefusedAgainIsExpectedThereNoMore(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi zones=a price=0.05", "node n pool=general type=two zone=a age=1h", "pod web cpu=1")
	says(s)
	for minute := range 12 {
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if len(plan.Launches) > 0 || len(plan.Placements) != 1 || len(plan.Notes) > 0 {
			t.Fatalf("after %d minutes: launches %v, placements %v, notes %v", minute, plan.Launches, plan.Placements, plan.Notes)
		}
		s.Now, s.ExpectedPods = s.Now.Add(time.Minute), plan.ExpectedPods
	}
	for range 2 { // it stays that way
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if got := scenariotest.Bought(plan); !slices.Equal(got, []string{"two"}) || len(plan.Placements) > 0 {
			t.Fatalf("machines of types %v, placements %v", got, plan.Placements)
		}
		if len(plan.Notes) != 1 || plan.Notes[0].Object != "Pod default/web" || !strings.Contains(plan.Notes[0].Reason.Message(), schedulerWords) || !strings.Contains(plan.Notes[0].Reason.Message(), "node n") {
			t.Errorf("notes: %+v", plan.Notes)
		}
		s.Now, s.ExpectedPods = s.Now.Add(time.Minute), plan.ExpectedPods
	}
}

// A machine that was started for the pod and that kube-scheduler refuses too has not taken it: the pool remembers.
func TestAMachineThatKubeSchedulerRefusesIsNotStartedAgainAtOnce(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi zones=a price=0.05", "node m pool=general type=two zone=a age=20m planned=web", "pod web cpu=1")
	says(s)
	s.ExpectedPods[string(s.Pods[0].UID)] = engine.ExpectedPod{Node: "m", Since: s.Now.Add(-12 * time.Minute)}
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) > 0 || len(plan.Unplaced) != 1 || plan.Unplaced[0].Reasons[0].Code != engine.LaunchesBackedOff ||
		!strings.Contains(plan.Unplaced[0].Reasons[0].Message(), schedulerWords) {
		t.Fatalf("launches %v, placements %v, unplaced %v", plan.Launches, plan.Placements, plan.Unplaced)
	}
	if len(plan.Backoffs) != 1 || len(plan.Backoffs[0].Found) != 1 || !strings.Contains(plan.Backoffs[0].Found[0].Why, schedulerWords) {
		t.Errorf("what is written down: %+v", plan.Backoffs)
	}
	scenariotest.WriteBackoffs(s, plan)
	s.ExpectedPods = plan.ExpectedPods
	if again := provisioning.Plan(s, engine.Options{}, nil); len(again.Backoffs) > 0 {
		t.Errorf("written down once more: %+v", again.Backoffs)
	}
	s.Nodes, s.NodeClaims = nil, nil
	if got := scenariotest.Bought(provisioning.Plan(s, engine.Options{}, nil)); len(got) > 0 {
		t.Errorf("once the machine is gone: machines of types %v", got)
	}
}

// If kube-scheduler has not had the time, or the pod was expected elsewhere in between, the pod is expected where there is room.
func TestAPodIsExpectedAsLongAsKubeSchedulerMayBindIt(t *testing.T) {
	t.Parallel()
	for name, differs := range map[string]func(s *engine.Snapshot, e *engine.ExpectedPod){
		"for a moment":                      func(s *engine.Snapshot, e *engine.ExpectedPod) { e.Since = s.Now.Add(-11 * time.Minute) },
		"on another node until now":         func(_ *engine.Snapshot, e *engine.ExpectedPod) { e.Node = "other" },
		"refused on a node that is gone":    func(s *engine.Snapshot, e *engine.ExpectedPod) { *e = engine.ExpectedPod{Refused: []string{"other"}} },
		"nobody keeps what plans have left": func(s *engine.Snapshot, _ *engine.ExpectedPod) { s.ExpectedPods = nil },
		"another pod is still making room": func(s *engine.Snapshot, _ *engine.ExpectedPod) {
			s.Pods[1].DeletionTimestamp = &s.Pods[1].CreationTimestamp
		},
		"another scheduler waits for more": func(s *engine.Snapshot, _ *engine.ExpectedPod) { s.Pods[0].Spec.SchedulerName = "volcano" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi zones=a price=0.05", "node n pool=general type=two zone=a age=1h", "pod web cpu=1", "pod old cpu=100m node=n")
			says(s)
			uid := string(s.Pods[0].UID)
			e := engine.ExpectedPod{Node: "n", Since: s.Now.Add(-time.Hour)}
			differs(s, &e)
			if s.ExpectedPods != nil {
				maps.Copy(s.ExpectedPods, map[string]engine.ExpectedPod{uid: e})
			}
			if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Launches) > 0 || len(plan.Placements) != 1 {
				t.Errorf("launches %v, placements %v", plan.Launches, plan.Placements)
			}
		})
	}
}
