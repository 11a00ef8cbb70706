package cli

import (
	"io"
	"strings"
	"testing"

	"tenon.sh/engine"
)

// A machine of unknown price is marked, and does not count as free.
func TestPlansSayThatPricesAreUnknown(t *testing.T) {
	t.Parallel()
	plan := &engine.Plan{Launches: []engine.Launch{{Name: "p-1", NodePool: "p", InstanceTypes: []string{"odd"}}}, Cost: engine.Cost{Unpriced: 1}}
	if text := strings.Join(summary(plan), "\n"); !strings.Contains(text, "and 1 machine of unknown price.") {
		t.Errorf("the summary is %q", text)
	}
	if text := strings.Join(launchTable(newTerminal(io.Discard), "", plan.Launches), "\n"); !strings.Contains(text, "unknown") {
		t.Errorf("the table is %q", text)
	}
	for unpriced, want := range map[int]bool{1: true, 0: false} {
		plan.Cost.Unpriced = unpriced
		var text strings.Builder
		if err := newPlanDocument(plan).writeJSON(&text); err != nil || strings.Contains(text.String(), `"unpriced": 1`) != want {
			t.Errorf("%d of unknown price: the document is %s, %v", unpriced, text.String(), err)
		}
	}
}
