package disruption_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
	"tenon.sh/scenario/workload"
)

// In a large cluster with much to save, replacements come in groups that budgets can take one by one, and all groups together leave no pod
// behind.
func TestManyMachinesAreReplacedInParts(t *testing.T) {
	t.Parallel()
	s := workload.Running(workload.Cost(workload.Mix, 0, 1, v1.CapacityTypeOnDemand), 1100, 4400, 1)
	s.NodePools[0].Spec.Disruption.Budgets = []v1.Budget{{Nodes: "100%"}}
	plan := disruption.Plan(s, engine.Options{}, nil)
	gone, most, launches := 0, 0, 0
	for _, d := range plan.Disruptions {
		gone, most, launches = gone+len(d.Nodes), max(most, len(d.Nodes)), launches+len(d.Replacements)
		if len(d.Moves) != len(d.Pods) {
			t.Errorf("disruption of %v: %d pods, and a place for %d", d.Nodes, len(d.Pods), len(d.Moves))
		}
	}
	if gone < 100 || launches == 0 || most > 64 {
		t.Errorf("%d nodes go for %d new ones, %d at once: want at least 100 nodes, some new ones, and at most 64 at once", gone, launches, most)
	}
	after := scenario.MoveOver(s, plan)
	if next := provisioning.Plan(after, engine.Options{}, nil); len(next.Launches)+len(next.Unplaced)+len(next.Placements) > 0 {
		t.Errorf("after all moves: %d launches, %d placements and %d pods without a place, want none", len(next.Launches), len(next.Placements), len(next.Unplaced))
	}
}

// consolidateAfter counts from the time when the last pod left, even if that pod lived for seconds only. But pods that come and go hold a
// node for a limited time only.
func TestAnEmptyNodeStaysForItsQuietTimeAfterABriefPodLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lasting, brief time.Duration // since a pod of the kind came or left
		stays          bool
	}{
		{2 * time.Minute, 10 * time.Second, true},
		{2 * time.Minute, 31 * time.Second, false},
		{time.Hour, 10 * time.Second, false},
	} {
		s := scenariotest.Cluster(t, "pool general consolidate-after=30s", "type two cpu=2 mem=4Gi zones=a price=0.05", "node n1 pool=general type=two zone=a quiet="+c.lasting.String())
		s.NodeClaims[0].Annotations = map[string]string{v1.BriefPodLeftAnnotationKey: s.Now.Add(-c.brief).Format(time.RFC3339)}
		if plan := disruption.Plan(s, engine.Options{}, nil); (len(plan.Disruptions) == 0) != c.stays {
			t.Errorf("%v after a lasting pod, %v after a brief one: %d nodes go, stays should be %v", c.lasting, c.brief, len(plan.Disruptions), c.stays)
		}
	}
}

// The plan records every move that consolidation has judged, once for each pool that loses machines, with the score if the policy asks for
// it.
func TestMovesAreWrittenDownWithTheirScores(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../testdata/consolidate_balanced_weighs_saving_against_disruption.txt")
	if err != nil {
		t.Fatal(err)
	}
	file, err := scenario.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range disruption.Plan(file.Snapshot, file.Options, nil).Judgements {
		line := fmt.Sprintf("%s %s %s %t", j.NodePool, j.Policy, strings.Join(j.Nodes, ","), j.Approved)
		if b := j.Balance; (b != nil) != (j.Policy == v1.Balanced) {
			t.Errorf("%s: balance %+v", line, b)
		} else if b != nil {
			line += fmt.Sprintf(" %.2f", b.Score)
			if share := b.Saving / b.Disruption; share/b.Score < 0.999 || share/b.Score > 1.001 {
				t.Errorf("%s: saves %v for %v", line, b.Saving, b.Disruption)
			}
		}
		got = append(got, line)
	}
	slices.Sort(got)
	want := []string{"even Balanced n1 true 3.06", "even Balanced n2 false 0.08", "usual WhenEmptyOrUnderutilized u1 true"}
	if !slices.Equal(got, want) {
		t.Errorf("judged:\n%s", strings.Join(got, "\n"))
	}
}

// Of several faults, the one with the highest priority is named as the node's; of faults with the same priority, the one that was due first.
func TestTheMostUrgentFaultIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ broken, want string }{
		{"broken=(Ready False for=9h) broken=(Disk True for=40m)", "Disk"},
		{"broken=(Disk True for=40m) broken=(Kernel True for=50m)", "Kernel"},
		{"broken=(Disk True for=50m) broken=(Kernel True for=40m)", "Disk"},
		{"broken=(Kernel True for=40m) broken=(Disk True for=40m)", "Disk"},
		{"broken=(Ready False for=9h) broken=(Disk True for=20m)", "Ready"},
		{"broken=(Disk True for=20m)", ""},
	} {
		s := scenariotest.Cluster(t, "class default repair=(Ready False after=30m priority=10) repair=(Disk True after=30m priority=90) repair=(Kernel True after=30m priority=90)",
			"pool general", "type two cpu=2 mem=4Gi price=0.05", "node n1 pool=general type=two zone=a age=10h "+c.broken)
		if got := disruption.BrokenBy(s, s.Nodes[0], s.NodeClaims[0]); got != c.want {
			t.Errorf("%s: broken by %q, not %q", c.broken, got, c.want)
		}
	}
}
