package nomination_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/nomination"
	"tenon.sh/scenario/scenariotest"
)

// queueOf returns a cluster with nodes of eight cores that are to open. So many of them were started for a pod of eight cores each, others for
// 80 small pods each, which are older. The other waiting pods have no demands except room.
func queueOf(t *testing.T, large, small, more int) *engine.Snapshot {
	t.Helper()
	lines := []string{"pool general", "type eight cpu=8 mem=32Gi zones=a price=0.2"}
	for i := range large {
		lines = append(lines, fmt.Sprintf("node l%d pool=general type=eight zone=a uninitialized planned=large-%d", i+1, i+1))
	}
	for i := 0; i < small; i += 80 {
		var names []string
		for k := range 80 {
			names = append(names, fmt.Sprintf("small-%d", i+k+1))
		}
		lines = append(lines, fmt.Sprintf("node s%d pool=general type=eight zone=a uninitialized planned=%s", i, strings.Join(names, ",")))
	}
	lines = append(lines, fmt.Sprintf("pods small x%d cpu=100m mem=100Mi age=20s", small), fmt.Sprintf("pods large x%d cpu=8 mem=8000Mi age=10s", large))
	if more > 0 {
		lines = append(lines, fmt.Sprintf("pods more x%d cpu=7 mem=1Gi age=5s", more))
	}
	return scenariotest.Cluster(t, lines...)
}

// openingsOf returns the snapshot's nodes with the pods for which they were started.
func openingsOf(s *engine.Snapshot) (out []nomination.Opening) {
	for i, n := range s.Nodes {
		o := nomination.Opening{Node: n}
		for _, p := range s.Pods {
			if slices.Contains(kube.PlannedPods(s.NodeClaims[i]), string(p.UID)) {
				o.Pods = append(o.Pods, p)
			}
		}
		out = append(out, o)
	}
	return out
}

func TestWhereTheQueueIsLongOnlyPodsThatNeedItAreNominated(t *testing.T) {
	t.Parallel()
	s := queueOf(t, 5, 400, 2000)
	group := openingsOf(s)
	if !nomination.NominationsAreDear(405, 2405) {
		t.Error("405 nominations beside 2,000 other pods are said to cost little")
	}
	if nomination.NominationsAreDear(405, 405) {
		t.Error("nominations are said to cost much where nobody else waits")
	}
	for i, o := range nomination.NominateFew(s, engine.Options{}, group) {
		var names []string
		for _, p := range o.Pods {
			names = append(names, p.Name)
		}
		want := ""
		if number, large := strings.CutPrefix(o.Node.Name, "l"); large {
			want = "large-" + number
		}
		if got := strings.Join(names, " "); o.Node != group[i].Node || got != want {
			t.Errorf("node %s: nominates %q, want %q", group[i].Node.Name, got, want)
		}
	}
}

func TestAdviceIsFewWhereTheQueueIsLong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ more, want int }{{0, 405}, {2000, 5}} {
		s := queueOf(t, 5, 400, c.more)
		for _, n := range s.Nodes {
			n.Labels["karpenter.sh/initialized"] = "true"
		}
		plan := &engine.Plan{}
		for i, o := range openingsOf(s) {
			for _, p := range o.Pods {
				plan.Placements = append(plan.Placements, engine.Placement{Pod: scenariotest.ID(p), Node: o.Node.Name, Claim: s.NodeClaims[i].Name})
			}
		}
		advice := (&nomination.Advisor{}).Advise(s, engine.Options{}, plan)
		if len(advice) != c.want {
			t.Errorf("beside %d other pods %d are nominated, want %d", c.more, len(advice), c.want)
		}
		for _, n := range advice {
			if c.more > 0 && !strings.HasPrefix(n.Pod.Name, "large") {
				t.Errorf("%s is nominated, which finds its place without", n.Pod.Name)
			}
		}
	}
}

func TestNobodyIsNominatedWhereTooManyWouldNeedIt(t *testing.T) {
	t.Parallel()
	s := queueOf(t, 760, 800, 0)
	for _, o := range nomination.NominateFew(s, engine.Options{}, openingsOf(s)) {
		if len(o.Pods) > 0 {
			t.Fatalf("node %s: nominates %s", o.Node.Name, o.Pods[0].Name)
		}
	}
}
