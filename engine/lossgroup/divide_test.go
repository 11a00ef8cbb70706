package lossgroup_test

import (
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// How much dearer a zone is nobody knows where nobody knows the price: the list stays whole.
func TestListsOfUnknownPriceAreNotCut(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general capacity in (spot)", "type odd cpu=2 mem=8Gi zones=a,b spot=0.1", "pods web x2 cpu=1500m owner=Deployment")
	for name, c := range map[string]struct {
		s    *engine.Snapshot
		want int
	}{"known": {s, 1}, "unknown": {scenariotest.UnknownAt(s, "odd"), 2}} {
		plan := provisioning.Plan(c.s, engine.Options{}, nil)
		for _, l := range plan.Launches {
			if len(l.Offerings) != c.want {
				t.Errorf("%s: %d offerings are listed, want %d", name, len(l.Offerings), c.want)
			}
		}
		if len(plan.Launches) != 2 {
			t.Errorf("%s: %d launches", name, len(plan.Launches))
		}
	}
}
