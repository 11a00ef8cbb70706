package engine_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/disruption"
	"tenon.sh/scenario"
)

// Every move that consolidation has weighed is written down once for each pool that it takes machines from, with the score where
// the policy asks for it.
func TestMovesAreWrittenDownWithTheirScores(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/consolidate_balanced_weighs_saving_against_disruption.txt")
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
