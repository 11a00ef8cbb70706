package explain_test

import (
	"math"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/explain"
	"tenon.sh/scenario/scenariotest"
)

// What paid for a machine that goes is there for one that stays: savings are of two bills, each made for its machines.
func TestSavingsBillTheMachinesOfEachSide(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=8Gi price=0.10", "type four cpu=4 mem=16Gi price=0.20",
		"node n1 pool=general type=four zone=a", "pod a cpu=3 node=n1",
		"node n2 pool=general type=two zone=a", "pod b cpu=1 node=n2 select=kubernetes.io/hostname:n2",
		"commitment reserved machines=1 price=0.05")
	got := explain.NewSavings(s, engine.Options{})
	if math.Abs(got.NowPerHour-0.10) > 1e-6 || math.Abs(got.PlannedPerHour-0.20) > 1e-6 || got.BoundPerHour != nil {
		t.Errorf("%v now, %v planned, at least %v; want 0.10 beside what pays for n1, then 0.20 beside what pays for n2", got.NowPerHour, got.PlannedPerHour, got.BoundPerHour)
	}
}

// A node whose pods nothing but a machine of unknown price could take stays in the comparison.
func TestSavingsPlanNothingOfUnknownPrice(t *testing.T) {
	t.Parallel()
	s := scenariotest.UnknownAt(scenariotest.Cluster(t, "pool general", "type odd cpu=8 mem=32Gi price=1", "type known cpu=8 mem=32Gi price=0.30",
		"node n1 pool=general type=known zone=a", "pod a cpu=5 node=n1 age=100h"), "odd")
	for i := range s.Classes[0].InstanceTypes {
		if t := &s.Classes[0].InstanceTypes[i]; t.Name == "known" {
			for j := range t.Offerings {
				t.Offerings[j].SoldOut = true
			}
		}
	}
	if got := explain.NewSavings(s, engine.Options{}); len(got.Staying) != 1 || math.Abs(got.NowPerHour-0.30) > 1e-9 || math.Abs(got.PlannedPerHour-0.30) > 1e-9 {
		t.Errorf("%v now, %v planned, %v stay; want n1 at its price on both sides", got.NowPerHour, got.PlannedPerHour, got.Staying)
	}
}
