package budget_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/disruption"
	"tenon.sh/scenario/scenariotest"
)

// The pods of a minute-old owner move once. Their successors look like the owner's first pods, but the pool's record of the moves counts for an
// hour.
func TestPodsOfANewOwnerAreNotMovedAgainAndAgain(t *testing.T) {
	t.Parallel()
	at := func(node string) *engine.Snapshot {
		return scenariotest.Cluster(t,
			"pool general budget=100%", "type four cpu=4 mem=8Gi price=0.10",
			"node n1 pool=general type=four zone=a quiet=10m", "node n2 pool=general type=four zone=a quiet=10m",
			"replicaset web", "pod web cpu=1 node="+node+" owner=ReplicaSet/web age=1m", "pod other cpu=2 node=n2 do-not-disrupt")
	}
	first := at("n1")
	plan := disruption.Plan(first, engine.Options{}, nil)
	if len(plan.Disruptions) != 1 {
		t.Fatalf("%d nodes go", len(plan.Disruptions))
	}
	record := budget.RecordMoves(first.NodePools[0], plan.Disruptions[0], first.Now)
	for _, c := range []struct {
		name, text string
		later      time.Duration
		moves      bool
	}{
		{"nobody remembers", "", time.Minute, true},
		{"nobody can read it", "{", time.Minute, true},
		{"a minute later", record, time.Minute, false},
		{"59 minutes later", record, 59 * time.Minute, false},
		{"an hour later", record, time.Hour, true},
		{"a clock was wrong by far", record, -2 * time.Hour, true},
	} {
		s := at("n1") // the pod that came is where a machine had to be started for it
		s.Now = s.Now.Add(c.later)
		s.Pods[0].CreationTimestamp.Time = s.Now.Add(-30 * time.Second)
		s.ReplicaSets[0].CreationTimestamp.Time = s.Now.Add(-time.Minute)
		s.NodePools[0].Annotations = map[string]string{v1.MovedPodsAnnotationKey: c.text}
		plan := disruption.Plan(s, engine.Options{}, nil)
		if len(plan.Disruptions) > 0 != c.moves {
			t.Errorf("%s: %d nodes go, kept: %v", c.name, len(plan.Disruptions), plan.Kept)
		}
	}
}

// Of eight pods four were moved within the hour, so the three of one node may go. What is said of the others counts the pods that run there.
func TestPodsAreCountedOnEachNode(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t,
		"pool general budget=100%", "type four cpu=4 mem=8Gi price=0.10", "node x cpu=8 mem=16Gi",
		"node n1 pool=general type=four zone=a quiet=10m", "node n2 pool=general type=four zone=a quiet=10m", "node n3 pool=general type=four zone=a quiet=10m",
		"pods web x3 cpu=100m node=n1 owner=ReplicaSet/web age=5h", "pods weba x2 cpu=1 node=n2 owner=ReplicaSet/web age=5h",
		"pods webb x3 cpu=600m node=n3 owner=ReplicaSet/web age=5h")
	s.NodePools[0].Annotations = map[string]string{v1.MovedPodsAnnotationKey: budget.RecordMoves(s.NodePools[0], engine.Disruption{
		OwnersMoved: map[string]int{"default/ReplicaSet/web": 4}}, s.Now)}
	plan := disruption.Plan(s, engine.Options{}, nil)
	if len(plan.Disruptions) != 1 || plan.Disruptions[0].Nodes[0] != "n1" {
		t.Fatalf("%+v go", plan.Disruptions)
	}
	for i, want := range []string{"2 pods of this node, beside those that go first,", "3 pods of this node, beside those that go first,"} {
		if r := plan.Kept[i].Reason; r.Code != engine.OwnerMoved || r.Need != want || r.Have != "4 more pods" {
			t.Errorf("node %s: %+v", plan.Kept[i].Node, r)
		}
	}
}

// Each of four new pods may move once.
func TestEachPodOfANewOwnerMovesOnce(t *testing.T) {
	t.Parallel()
	for moved, more := range map[int]int{0: 1, 2: 1, 3: 1, 4: 0} {
		s := scenariotest.Cluster(t,
			"pool general budget=100%", "type four cpu=4 mem=8Gi price=0.10",
			"node n1 pool=general type=four zone=a quiet=10m", "node n2 pool=general type=four zone=a quiet=10m", "node n3 pool=general type=four zone=a quiet=10m",
			"replicaset web", "pod web1 cpu=1 node=n1 owner=ReplicaSet/web age=1m", "pod web2 cpu=1 node=n2 owner=ReplicaSet/web age=1m",
			"pods web x2 cpu=1 node=n3 owner=ReplicaSet/web age=1m do-not-disrupt", "pod other cpu=500m node=n3 do-not-disrupt")
		s.NodePools[0].Annotations = map[string]string{v1.MovedPodsAnnotationKey: budget.RecordMoves(s.NodePools[0], engine.Disruption{
			OwnersMoved: map[string]int{"default/ReplicaSet/web": moved}}, s.Now)}
		n := 0
		for _, d := range disruption.Plan(s, engine.Options{}, nil).Disruptions {
			n += len(d.Pods)
		}
		if n != more {
			t.Errorf("after %d moves %d pods move", moved, n)
		}
	}
}

// The record on a pool is bounded, adds up, and loses moves that no longer count.
func TestWhatIsWrittenOfMovesIsBounded(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general budget=100%", "type four cpu=4 mem=8Gi price=0.10", "node n1 pool=general type=four zone=a")
	move := func(owners map[string]int) string {
		text := budget.RecordMoves(s.NodePools[0], engine.Disruption{OwnersMoved: owners}, s.Now)
		s.NodePools[0].Annotations = map[string]string{v1.MovedPodsAnnotationKey: text}
		return text
	}
	move(map[string]int{"web": 1})
	if text := move(map[string]int{"web": 2}); !strings.Contains(text, `"count":3`) {
		t.Errorf("1 and 2 pods are %s", text)
	}
	s.Now = s.Now.Add(time.Minute)
	many := map[string]int{}
	for i := range 1000 {
		many[fmt.Sprint("owner-", i)] = 1
	}
	if text := move(many); len(text) > 12<<10 {
		t.Errorf("%d bytes are written for %d owners", len(text), len(many))
	}
	s.Now = s.Now.Add(time.Hour)
	if text := move(map[string]int{"web": 1}); !strings.Contains(text, `"count":1`) || strings.Contains(text, "owner-") {
		t.Errorf("an hour later it says %s", text)
	}
}
