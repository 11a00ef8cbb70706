package disruption_test

import (
	"fmt"
	"slices"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/scenario/scenariotest"
)

// A commitment that a machine would give back pays for no replacement while the machine stays, even above 1,000 machines, where one trial is
// also used for some of its machines.
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
	s := scenariotest.Cluster(t, lines...)
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
