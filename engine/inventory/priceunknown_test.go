package inventory_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// The number in the place of an unknown price is no money: it is in no sum, no bound and no saving, and no commitment pays for it.
func TestAStandInForAPriceIsNoMoney(t *testing.T) {
	t.Parallel()
	s := scenariotest.UnknownAt(scenariotest.Cluster(t, "pool general budget=100%", "type two cpu=2 mem=8Gi price=0.10", "type odd cpu=8 mem=32Gi price=1",
		"node n1 pool=general type=odd zone=a quiet=1h", "pod a cpu=7 node=n1 age=1h",
		"node n2 pool=general type=two zone=a quiet=1h", "pod b cpu=1500m node=n2 age=1h",
		"pod small cpu=1500m", "pod large cpu=7", "commitment plan amount=100 discount=0.5"), "odd")
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if cost := plan.Cost; len(plan.Launches) != 2 || cost.Unpriced != 1 || cost.LaunchesPerHour > 0.11 || cost.Worst > 0.11 || cost.Expected > 0.11 || cost.Unhinted > 0.11 || cost.Bound != 0 || cost.Gap != 0 {
		t.Errorf("%d launches cost %+v, want two, one of them at no price, and no bound", len(plan.Launches), plan.Cost)
	}
	for _, l := range plan.Launches {
		if odd := l.Offerings[0].InstanceType == "odd"; odd != (l.Price == 0) || odd && (l.Commitment != "" || !strings.Contains(l.Sentence(), "for a price that nobody knows")) {
			t.Errorf("%s for %v of %q", l.Sentence(), l.Price, l.Commitment)
		}
	}
	for _, u := range inventory.CommitmentUses(s) {
		if u.Machines != 1 || math.Abs(u.InsteadPerHour-0.10) > 1e-9 || math.Abs(u.UsedPerHour-0.05) > 1e-9 {
			t.Errorf("%+v, want n2 alone", u)
		}
	}
	whole := *s
	whole.Commitments = nil
	if got := explain.NewSavings(&whole, engine.Options{}); !slices.Equal(got.Unpriced, []string{"n1"}) || math.Abs(got.NowPerHour-0.10) > 1e-9 || got.PlannedPerHour > 0.11 {
		t.Errorf("%v now, %v planned, unpriced %v; want n2 alone on both sides", got.NowPerHour, got.PlannedPerHour, got.Unpriced)
	}
	for _, d := range disruption.Plan(&whole, engine.Options{}, nil).Disruptions {
		if slices.Contains(d.Nodes, "n1") && d.Reason == v1.Underutilized {
			t.Errorf("%v go to save what nobody knows: %v", d.Nodes, d.SavingPerHour)
		}
	}
}
