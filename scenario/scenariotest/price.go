package scenariotest

import (
	"slices"

	"tenon.sh/engine"
)

// PricedAt returns the classes with changed prices.
func PricedAt(classes []engine.Class, price func(usd float64) float64) []engine.Class {
	out := slices.Clone(classes)
	for i := range out {
		types := slices.Clone(out[i].InstanceTypes)
		for j := range types {
			types[j].Offerings = slices.Clone(types[j].Offerings)
			for k := range types[j].Offerings {
				types[j].Offerings[k].Price = price(types[j].Offerings[k].Price)
			}
		}
		out[i].InstanceTypes = types
	}
	return out
}

// UnknownAt returns the snapshot with unknown prices for machines of these types: their price is 999.
func UnknownAt(s *engine.Snapshot, types ...string) *engine.Snapshot {
	out := *s
	out.Classes = PricedAt(s.Classes, func(usd float64) float64 { return usd })
	for i := range out.Classes {
		for j := range out.Classes[i].InstanceTypes {
			t := &out.Classes[i].InstanceTypes[j]
			for k := range t.Offerings {
				if slices.Contains(types, t.Name) {
					t.Offerings[k].Price, t.Offerings[k].PriceUnknown = 999, true
				}
			}
		}
	}
	return &out
}
