package engine_test

import (
	"math"
	"slices"
	"testing"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// risky returns the snapshot in which spot machines of zone a, or of every second type, have an expected loss by interruptions. The loss is a
// field of its own, or a part of the price.
func risky(s *engine.Snapshot, usd float64, priced bool) *engine.Snapshot {
	out := *s
	out.Classes = slices.Clone(s.Classes)
	for i := range out.Classes {
		types := slices.Clone(out.Classes[i].InstanceTypes)
		for j := range types {
			types[j].Offerings = slices.Clone(types[j].Offerings)
			for k := range types[j].Offerings {
				o := &types[j].Offerings[k]
				switch {
				case o.CapacityType != v1.CapacityTypeSpot || o.Zone != "a" && j%2 > 0:
				case priced:
					o.Price += usd
				default:
					o.InterruptionLoss = usd
				}
			}
		}
		out.Classes[i].InstanceTypes = types
	}
	return &out
}

// An expected loss by interruptions has the same effect on decisions as a higher price. A cache that has seen another loss gives the same plan.
func TestLawWhatInterruptionsCostIsAsGoodAsDearerMachines(t *testing.T) {
	t.Parallel()
	different := 0
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		s = paysAnyPrice(s)
		cache := &inventory.Cache{}
		for _, usd := range []float64{0.03125, 0, 0.25} {
			with, dear := risky(s, usd, false), risky(s, usd, true)
			got := provisioning.Plan(with, engine.Options{}, cache)
			for i := range got.Launches {
				got.Launches[i].PriceOverlaid = false
			}
			if a, b := scenariotest.Text(t, got), scenariotest.Text(t, provisioning.Plan(dear, engine.Options{}, nil)); a != b {
				t.Errorf("seed %d, %v: %s", seed, usd, scenariotest.FirstDifference(a, b))
			}
			if usd > 0 && scenariotest.Text(t, got) != scenariotest.Text(t, provisioning.Plan(s, engine.Options{}, nil)) {
				different++
			}
			moves := disruption.Plan(with, engine.Options{}, cache)
			for i := range moves.Disruptions {
				for j := range moves.Disruptions[i].Replacements {
					moves.Disruptions[i].Replacements[j].PriceOverlaid = false
				}
			}
			if a, b := scenariotest.Text(t, moves), scenariotest.Text(t, disruption.Plan(dear, engine.Options{}, nil)); a != b {
				t.Errorf("seed %d, %v, disrupt: %s", seed, usd, scenariotest.FirstDifference(a, b))
			}
		}
	})
	if different == 0 {
		t.Error("no plan hangs on it: that proves nothing")
	}
}

// The cloud gets an order of offerings only if it could not find that order by its own prices. If all listed offerings lose the same amount,
// there is no such order.
func TestOnlyLossesThatDifferMakeAnOrderOfTheirOwn(t *testing.T) {
	t.Parallel()
	for other, want := range map[float64]bool{0.01: false, 0.011: true} {
		s := scenariotest.Cluster(t, "pool p capacity in (spot)", "type one cpu=2 mem=4Gi zones=a,b price=0.20 spot=0.06", "pod web cpu=1")
		for i := range s.Classes[0].InstanceTypes[0].Offerings {
			o := &s.Classes[0].InstanceTypes[0].Offerings[i]
			if o.InterruptionLoss = 0.01; o.Zone == "b" {
				o.InterruptionLoss = other
			}
		}
		l := provisioning.Plan(s, engine.Options{}, nil).Launches
		if len(l) != 1 || len(l[0].Offerings) != 2 || l[0].PriceOverlaid != want {
			t.Errorf("losses 0.01 and %v: %+v", other, l)
		}
	}
}

// Nodes show their billed cost. Comparisons with plans use the cost for decisions, on both sides.
func TestBillsAreWithoutWhatInterruptionsCost(t *testing.T) {
	t.Parallel()
	s := risky(scenariotest.Cluster(t, "pool p capacity in (spot)", "node-overhead-price 0.01", "type one cpu=2 mem=4Gi zones=a price=0.20 spot=0.06",
		"node n pool=p type=one zone=a capacity=spot", "pod web cpu=1500m node=n"), 0.03, false)
	labels := s.Nodes[0].Labels
	if usd, known := inventory.NewPriceBook(s).Price(labels, nil); !known || math.Abs(usd-0.07) > 1e-9 {
		t.Errorf("the node's bill is %v, known %v, want 0.07", usd, known)
	}
	story, _ := explain.ExplainNode(s, &engine.Plan{}, &engine.Plan{}, "n")
	if story.PricePerHour == nil || math.Abs(*story.PricePerHour-0.07) > 1e-9 {
		t.Errorf("explain says %v, want 0.07", story.PricePerHour)
	}
	pool := explain.ExplainPool(s, &engine.Plan{}, nil, s.NodePools[0])
	if math.Abs(pool.PricePerHour-0.07) > 1e-9 {
		t.Errorf("explain says %v of the pool, want 0.07", pool.PricePerHour)
	}
	if got := explain.NewSavings(s, engine.Options{}); math.Abs(got.NowPerHour-0.10) > 1e-9 || math.Abs(got.PlannedPerHour-0.10) > 1e-9 {
		t.Errorf("%v now, %v planned, want what decides on both sides", got.NowPerHour, got.PlannedPerHour)
	}
}
