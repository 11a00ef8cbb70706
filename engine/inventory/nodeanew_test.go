package inventory_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/engine/scheduler"
	"tenon.sh/scenario/scenariotest"
)

// since sets the status of the claim's condition, as if the status had changed this time ago.
func since(s *engine.Snapshot, claim, condition string, status metav1.ConditionStatus, ago time.Duration) {
	for _, c := range s.NodeClaims {
		for i := range c.Status.Conditions {
			if x := &c.Status.Conditions[i]; c.Name == claim && x.Type == condition {
				x.Status, x.LastTransitionTime = status, metav1.NewTime(s.Now.Add(-ago))
			}
		}
	}
}

// The watch of nodes may be behind that of claims.
func TestANodeIsNotGoneBecauseItsClaimIsSeenFirst(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi price=0.05", "node n1 pool=general type=two zone=a", "pod web cpu=2")
	s.Nodes = nil
	if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Launches) > 0 {
		t.Errorf("launches %v for a pod whose node has just registered", plan.Launches)
	}
	cache := &inventory.Cache{}
	provisioning.Plan(s, engine.Options{}, cache)
	later := *s
	later.Now = s.Now.Add(time.Minute)
	if plan := provisioning.Plan(&later, engine.Options{}, cache); len(plan.Launches) != 1 {
		t.Errorf("launches %v a minute later, want one: there is no node", plan.Launches)
	}
}

func TestNothingLandsOnAMachineWhoseNodeIsGone(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi price=0.05", "node n1 pool=general type=two zone=a gone", "pod web cpu=2")
	if landing := (&scheduler.Replay{Snapshot: s, Pods: s.Pods}).Land(); len(landing.Placements) > 0 {
		t.Errorf("placements %v", landing.Placements)
	}
	web := engine.PodID{Namespace: "default", Name: "web"}
	if r := disruption.Check(engine.Placement{Pod: web, Node: "n1", Claim: "n1"}, s); r.Code != engine.NodeGone {
		t.Errorf("a placement there is refused with %q", r.Code)
	}
}

// A node from before the registration of its claim is in an old state: again the watch is behind.
func TestANodeThatIsSeenAsBeforeItsRegistrationIsNotBare(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi price=0.05", "node n1 pool=general type=two zone=a unregistered",
		"pod web cpu=2 select=karpenter.sh/nodepool:general")
	since(s, "n1", v1.ConditionRegistered, metav1.ConditionTrue, 0)
	delete(s.Nodes[0].Labels, v1.NodePoolLabelKey)
	if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Launches) > 0 {
		t.Errorf("launches %v for a pod whose node has just registered", plan.Launches)
	}
}

// A pod lands on a bare node as kube-scheduler sees it, not as it will be.
func TestAPodLandsOnABareNodeOnlyAsItIs(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi price=0.05", "node n1 pool=general type=two zone=a bare",
		"pod picky cpu=1 select=karpenter.sh/nodepool:general", "pod easy cpu=1")
	landing := (&scheduler.Replay{Snapshot: s, Pods: s.Pods}).Land()
	if len(landing.Placements) != 1 || landing.Placements[0].Pod.Name != "easy" {
		t.Errorf("placements %v", landing.Placements)
	}
}

// A node that comes again has as long to become ready as one that comes for the first time, and tells nothing of how long that takes.
func TestAMachineWhoseNodeComesAgainIsNotLate(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi price=0.05", "node n1 pool=general type=two zone=a unregistered planned=web", "pod web cpu=2")
	since(s, "n1", v1.ConditionLaunched, metav1.ConditionTrue, 240*time.Hour)
	since(s, "n1", v1.ConditionRegistered, metav1.ConditionUnknown, time.Minute)
	if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Launches) > 0 {
		t.Errorf("launches %v: the machine is about to take its pod", plan.Launches)
	}
}

func TestAMachineWhoseNodeCameAgainTellsNothingOfOthers(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi price=0.05", "node n1 pool=general type=two zone=a", "pod old cpu=2 node=n1",
		"claim slow pool=general type=two zone=a planned=web", "pod web cpu=2")
	since(s, "n1", v1.ConditionLaunched, metav1.ConditionTrue, 240*time.Hour)
	since(s, "slow", v1.ConditionLaunched, metav1.ConditionTrue, time.Hour)
	if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Launches) != 1 {
		t.Errorf("launches %v, want one: the other machine is not waited for any more", plan.Launches)
	}
}

func TestAMachineWhoseNodeIsGoneDoesNotMakeOthersLookLate(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi price=0.05", "node n1 pool=general type=two zone=a gone",
		"claim slow pool=general type=two zone=a planned=web", "pod web cpu=2")
	for _, condition := range []string{v1.ConditionRegistered, v1.ConditionInitialized} {
		since(s, "n1", condition, metav1.ConditionUnknown, 20*time.Minute)
	}
	since(s, "slow", v1.ConditionLaunched, metav1.ConditionTrue, time.Hour)
	if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Launches) != 1 {
		t.Errorf("launches %v, want one: one machine is late, not two of two", plan.Launches)
	}
}

// A claim without its node still counts as one of the pool's machines: it may come again.
func TestAFixedPoolDoesNotReplaceAMachineWhoseNodeMayComeAgain(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general replicas=1", "type two cpu=2 mem=4Gi price=0.05", "node n1 pool=general type=two zone=a gone")
	if todo := disruption.Resize(s, engine.Options{}); len(todo) > 0 {
		t.Errorf("resizes %+v", todo)
	}
}

func TestAMachineThatIsReadAsABareNodeIsNoCandidate(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general budget=100% consolidate-after=1s", "type two cpu=2 mem=4Gi price=0.05", "node n1 pool=general type=two zone=a bare")
	plan := disruption.Plan(s, engine.Options{}, nil)
	if len(plan.Disruptions) > 0 || !slices.ContainsFunc(plan.Kept, func(k engine.Kept) bool { return k.Reason.Code == engine.NotInitialized }) {
		t.Errorf("disrupts %v, keeps %v", plan.Disruptions, plan.Kept)
	}
	if !slices.ContainsFunc(s.Nodes, func(n *corev1.Node) bool { return n.Labels[v1.NodePoolLabelKey] == "" }) {
		t.Error("the node is not bare")
	}
}
