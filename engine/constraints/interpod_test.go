package constraints_test

import (
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// Running pods count for rules between pods as kube-scheduler counts them: n1 in zone a and n2 in zone b have room, and only rules keep the
// pod off one of them, or off both.
func TestWhatRunsOnNodesCountsForRulesBetweenPods(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, runs, pod string
		want            string // the nodes that the pod may use
	}{
		{name: "no rule", runs: "pod other cpu=100m node=n1", pod: "cpu=1", want: "n1 n2"},
		{name: "spread over zones", runs: "pod web cpu=100m node=n1", pod: "cpu=1 spread=zone", want: "n2"},
		{name: "spread over machines", runs: "pod web cpu=100m node=n2", pod: "cpu=1 spread=(hostname skew=1)", want: "n1"},
		{name: "spread counts those that it selects", runs: "pod other cpu=100m node=n1", pod: "cpu=1 spread=zone", want: "n1 n2"},
		{name: "spread does not count those that are stopping", runs: "pod web cpu=100m node=n1 deleting", pod: "cpu=1 spread=zone", want: "n1 n2"},
		{name: "spread does not count other namespaces", runs: "pod web cpu=100m node=n1 ns=other", pod: "cpu=1 spread=zone", want: "n1 n2"},
		{name: "apart by zone", runs: "pod web cpu=100m node=n1", pod: "cpu=1 apart=zone", want: "n2"},
		{name: "apart from those that are stopping too", runs: "pod web cpu=100m node=n1 deleting", pod: "cpu=1 apart=zone", want: "n2"},
		{name: "what runs keeps others out", runs: "pod web cpu=100m node=n2 apart=hostname", pod: "cpu=1", want: "n1"},
		{name: "together", runs: "pod web cpu=100m node=n2", pod: "cpu=1 together=zone", want: "n2"},
		{name: "together with nobody but itself", runs: "pod other cpu=100m node=n2", pod: "cpu=1 together=zone", want: "n1 n2"},
		{name: "a port of the host", runs: "pod other cpu=100m port=8080 node=n1", pod: "cpu=1 port=8080", want: "n2"},
		{name: "another port of the host", runs: "pod other cpu=100m port=8080 node=n1", pod: "cpu=1 port=8081", want: "n1 n2"},
	} {
		got := ""
		for _, node := range []string{"n1", "n2"} { // the other node is unschedulable
			s := scenariotest.Cluster(t, "pool general limits=nodes:2", "type four cpu=4 mem=8Gi zones=a,b price=0.1",
				"node n1 pool=general type=four zone=a", "node n2 pool=general type=four zone=b", c.runs, "pods web x1 "+c.pod)
			for _, n := range s.Nodes {
				n.Spec.Unschedulable = n.Name != node
			}
			for _, p := range provisioning.Plan(s, engine.Options{}, nil).Placements {
				if got != "" {
					got += " "
				}
				got += p.Node
			}
		}
		if got != c.want {
			t.Errorf("%s: may go to %q, want %q", c.name, got, c.want)
		}
	}
}
