package provisioning_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// If a gang could not get all its machines, these go like others that did not take their pods: the next attempt waits, longer each time.
func TestAGangThatGetsTooFewMachinesBacksOff(t *testing.T) {
	t.Parallel()
	attempt := func(soldOut string, annotations map[string]string) (*engine.Snapshot, *engine.Plan) {
		s := scenariotest.Cluster(t, "pool general consolidate-after=0s budget=100%",
			"type two cpu=2 mem=8Gi zones=a price=0.1 "+soldOut, "gang train min=3",
			"node n1 pool=general type=two zone=a age=2m planned=train-1", "node n2 pool=general type=two zone=a age=2m planned=train-2",
			"pods train x3 cpu=1500m gang=train")
		scenariotest.ReadyFor(s, time.Minute)
		s.NodePools[0].Annotations = annotations
		return s, provisioning.Plan(s, engine.Options{}, nil)
	}
	s, plan := attempt("sold-out", nil)
	if len(plan.Launches)+len(plan.Placements) > 0 || len(plan.Backoffs) != 1 || len(plan.Backoffs[0].Found) != 1 {
		t.Fatalf("two of three machines have come: %+v", plan)
	}
	if why := plan.Backoffs[0].Found[0].Why; !strings.Contains(why, "group default/train") {
		t.Errorf("what is found out: %s", why)
	}
	scenariotest.WriteBackoffs(s, plan)
	for _, x := range disruption.Plan(s, engine.Options{}, nil).Disruptions {
		s.Nodes = slices.DeleteFunc(s.Nodes, func(n *corev1.Node) bool { return slices.Contains(x.Nodes, n.Name) })
		s.NodeClaims = slices.DeleteFunc(s.NodeClaims, func(c *v1.NodeClaim) bool { return slices.Contains(x.Claims, c.Name) })
	}
	if len(s.Nodes) > 0 {
		t.Errorf("%d machines stay that run nothing", len(s.Nodes))
	}
	written := s.NodePools[0].Annotations
	next := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=8Gi zones=a price=0.1", "gang train min=3", "pods train x3 cpu=1500m gang=train", "pod web cpu=1500m")
	next.NodePools[0].Annotations = written
	if plan := provisioning.Plan(next, engine.Options{}, nil); len(plan.Launches) != 1 || plan.Launches[0].Pods[0].Name != "web" {
		t.Errorf("the type can be had again, and %v is started at once, want a machine for web alone", plan.Launches)
	}
	next.Now = next.Now.Add(2 * time.Minute)
	if plan := provisioning.Plan(next, engine.Options{}, nil); len(plan.Launches) != 4 {
		t.Errorf("after the wait %d machines are started, want 4", len(plan.Launches))
	}
}

// If one of a gang's launches cannot be made any more, none is made; if one has become needless, the others are made.
func TestAGangIsLaunchedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	lines := func(limit, pods string) *engine.Snapshot {
		return scenariotest.Cluster(t, "pool general limits=cpu:"+limit, "type two cpu=2 mem=8Gi zones=a price=0.1", "gang train min=3",
			"pods train x"+pods+" cpu=1500m gang=train", "pod train-untried cpu=1500m gang=train untried", "pod web cpu=1500m")
	}
	plan := provisioning.Plan(lines("10", "3"), engine.Options{}, nil)
	if len(plan.Launches) != 5 {
		t.Fatalf("%d launches, want 5", len(plan.Launches))
	}
	for _, l := range plan.Launches {
		if claim := kube.NewClaim(lines("10", "3").NodePools[0], l); !slices.Equal(kube.GangsOf(claim), l.Gangs) || (l.Pods[0].Name == "web") != (l.Gangs == nil) {
			t.Errorf("launch of %v: gangs %v, its claim says %v", l.Pods, l.Gangs, kube.GangsOf(claim))
		}
	}
	for _, c := range []struct {
		limit, pods string
		right       int
		why         string
	}{
		{"10", "3", 5, "nothing has changed"},
		{"8", "3", 1, "the limit is lower: only the pod by itself has its machine"},
		{"10", "2", 4, "one pod is gone, and enough are left"},
		{"10", "1", 1, "too few pods are left"},
	} {
		right := 0
		for _, r := range disruption.NewChecker(lines(c.limit, c.pods)).CheckLaunches(plan.Launches) {
			if r.OK() {
				right++
			}
		}
		if right != c.right {
			t.Errorf("%s: %d launches are right, want %d", c.why, right, c.right)
		}
	}
}
