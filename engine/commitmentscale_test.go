package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/provisioning"
)

// What a machine would give back of a commitment pays for nobody's replacement while it stays: above 1,000 machines, a trial of many that go
// is used again for some of them.
func TestAMachineThatStaysGivesNothingBack(t *testing.T) {
	t.Parallel()
	lines := []string{
		"pool careful budget=100% consolidation=Balanced", "pool general budget=100%",
		"type big cpu=16 mem=64Gi price=0.80 zones=a,b", "type small cpu=2 mem=8Gi price=0.10 zones=a,b", "type huge cpu=64 mem=256Gi price=20 zones=b",
		"commitment plan amount=0.1 discount=0.5 topology.kubernetes.io/zone in (a)",
		"node room pool=careful type=huge zone=b quiet=10m", "pod large cpu=40 node=room owner=Deployment age=5h",
		"node first pool=careful type=big zone=a quiet=10m", "node second pool=general type=big zone=b quiet=10m",
		"pod alone cpu=1500m node=second owner=Deployment age=5h pool in (general)",
	}
	for i := range 10 {
		lines = append(lines, fmt.Sprintf("pod f%d cpu=1 node=first owner=Deployment age=5h", i))
	}
	for i := range 1001 {
		lines = append(lines, fmt.Sprintf("node n%d pool=general type=small zone=b quiet=10m", i), fmt.Sprintf("pod p%d cpu=1700m node=n%d owner=Deployment age=5h pool in (general)", i, i))
	}
	s := clusterOf(t, lines...)
	plan := disruption.Plan(s, engine.Options{}, nil)
	if len(plan.Disruptions) == 0 {
		t.Error("nothing goes: it proves nothing")
	}
	for _, d := range plan.Disruptions {
		if slices.Contains(d.Nodes, "first") {
			t.Error("first goes: it proves nothing")
		}
		for _, l := range d.Replacements {
			if l.Commitment != "" {
				t.Errorf("%v: %s is to be paid for by %s, of which first uses all", d.Nodes, l.Sentence(), l.Commitment)
			}
		}
	}
}

// What a commitment pays for costs as much as every node does beside its machine. The lists of launches are as long as without that.
func TestListsOfCoveredMachinesKnowWhatTheyWouldCost(t *testing.T) {
	t.Parallel()
	for _, commitment := range []string{"commitment some machines=1 price=0.01", "commitment all machines=1000000 price=0.01"} {
		for _, min := range []string{"", " type exists min=2"} {
			s := clusterOf(t, "pool p"+min, "node-overhead-price 0.02", commitment, "pod a cpu=1",
				"type t2 cpu=2 mem=8Gi price=0.10", "type t2x cpu=2 mem=9Gi price=0.11", "type t4 cpu=4 mem=16Gi price=0.20", "type t64 cpu=64 mem=256Gi price=3.20")
			l := provisioning.Plan(s, engine.Options{}, nil).Launches[0]
			if want := []string{"t2", "t2x"}; l.Commitment == "" || !slices.Equal(l.InstanceTypes, want) {
				t.Errorf("%s%s: paid for by %q, the list is %v, want %v", commitment, min, l.Commitment, l.InstanceTypes, want)
			}
		}
	}
}
