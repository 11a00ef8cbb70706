package engine_test

import (
	"slices"
	"testing"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
)

// risky is the snapshot in which spot machines of zone a, or of every other type, are expected to lose so much by interruptions: as such,
// or as a part of their prices.
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

// What interruptions are expected to cost decides as if the machines were dearer by that, and a cache that has seen another figure gives
// no other plan.
func TestLawWhatInterruptionsCostIsAsGoodAsDearerMachines(t *testing.T) {
	t.Parallel()
	different := 0
	eachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		s = paysAnyPrice(s)
		cache := &inventory.Cache{}
		for _, usd := range []float64{0.03125, 0, 0.25} {
			with, dear := risky(s, usd, false), risky(s, usd, true)
			got := provisioning.Plan(with, engine.Options{}, cache)
			for i := range got.Launches {
				got.Launches[i].PriceOverlaid = false
			}
			if a, b := text(t, got), text(t, provisioning.Plan(dear, engine.Options{}, nil)); a != b {
				t.Errorf("seed %d, %v: %s", seed, usd, firstDifference(a, b))
			}
			if usd > 0 && text(t, got) != text(t, provisioning.Plan(s, engine.Options{}, nil)) {
				different++
			}
			moves := disruption.Plan(with, engine.Options{}, cache)
			for i := range moves.Disruptions {
				for j := range moves.Disruptions[i].Replacements {
					moves.Disruptions[i].Replacements[j].PriceOverlaid = false
				}
			}
			if a, b := text(t, moves), text(t, disruption.Plan(dear, engine.Options{}, nil)); a != b {
				t.Errorf("seed %d, %v, disrupt: %s", seed, usd, firstDifference(a, b))
			}
		}
	})
	if different == 0 {
		t.Error("no plan hangs on it: that proves nothing")
	}
}
