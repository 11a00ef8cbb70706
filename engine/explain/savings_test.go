package explain_test

import (
	"math"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/explain"
	"tenon.sh/scenario/scenariotest"
)

// A commitment that paid for a removed machine can pay for a staying one: the saving is the difference of two bills, each for its own machines.
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

// The causes of the saving add up to the saving.
func TestSavingsAreSplitByTheirCauses(t *testing.T) {
	t.Parallel()
	types := []string{"pool general", "type two cpu=2 mem=8Gi price=0.10 spot=0.03", "type four cpu=4 mem=16Gi price=0.20 spot=0.06"}
	for name, c := range map[string]struct {
		cluster                 []string
		spot, packing, machines float64
	}{
		"spot":             {[]string{"node n1 pool=general type=two zone=a", "pod a cpu=1900m mem=1Mi node=n1"}, 0.07, 0, 0},
		"tighter":          {[]string{"node n1 pool=general type=two zone=a capacity=spot", "pod a cpu=950m mem=1Mi node=n1", "node n2 pool=general type=two zone=a capacity=spot", "pod b cpu=950m mem=1Mi node=n2"}, 0, 0.03, 0},
		"nothing to save":  {[]string{"node n1 pool=general type=two zone=a capacity=spot", "pod a cpu=1900m mem=1Mi node=n1"}, 0, 0, 0},
		"cheaper machines": {[]string{"type old cpu=2 mem=8Gi price=0.15", "node n1 pool=general type=old zone=a", "pod a cpu=1900m mem=1Mi node=n1"}, 0.07, 0, 0.05},
		"smaller machines": {[]string{"node n1 pool=general type=four zone=a capacity=spot", "pod a cpu=1900m mem=1Mi node=n1"}, 0, 0.03, 0},
	} {
		got := explain.NewSavings(scenariotest.Cluster(t, append(types, c.cluster...)...), engine.Options{})
		want := map[string]float64{explain.CauseSpot: c.spot, explain.CausePacking: c.packing, explain.CauseMachines: c.machines}
		sum := 0.0
		for _, x := range got.Causes {
			if sum += x.PerHour; math.Abs(x.PerHour-want[x.Cause]) > 0.006 {
				t.Errorf("%s: %s saves %.4f, want %.4f", name, x.Cause, x.PerHour, want[x.Cause])
			}
		}
		if len(got.Causes) != 3 || math.Abs(sum-(got.NowPerHour-got.PlannedPerHour)) > 1e-9 {
			t.Errorf("%s: the causes come to %f of %f", name, sum, got.NowPerHour-got.PlannedPerHour)
		}
	}
}

// Machines on neither side have a price too, so that the bill of all nodes can be explained.
func TestSavingsSayWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	got := explain.NewSavings(scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=8Gi price=0.10", "node n1 pool=general type=two zone=a", "pod a cpu=1 node=n1",
		"claim c1 pool=general type=two zone=a", "node old type=two zone=a"), engine.Options{})
	if got.Starting != 1 || math.Abs(got.StartingPerHour-0.10) > 1e-9 || got.Outside != 1 || math.Abs(got.OutsidePerHour-0.10) > 1e-9 || math.Abs(got.NowPerHour-0.10) > 1e-9 {
		t.Errorf("%d starting for %f, %d outside for %f", got.Starting, got.StartingPerHour, got.Outside, got.OutsidePerHour)
	}
}
