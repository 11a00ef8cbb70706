package market

import (
	"fmt"
	"slices"

	"tenon.sh/engine"
	"tenon.sh/provider/aws/soldout"
)

// marked shows a catalog with what has no capacity at the moment. Types of which nothing is known are shared with it.
func (m *Market) marked(want Want, types []engine.InstanceType) []engine.InstanceType {
	if m.marks.None() || len(types) == 0 {
		return types
	}
	places := want.places()
	var where []soldout.Place
	for _, p := range places {
		where = append(where, want.soldOutPlace(p))
	}
	// The address of the catalog stands for what is in it: it is kept as long as this is, in the value.
	key := fmt.Sprintf("marked %p %d %s", &types[0], m.marks.Edit(), keyOf(where))
	type pair struct{ from, to []engine.InstanceType }
	return kept(m.shelf, key, markedFor, func() pair { return pair{types, m.mark(types, where)} }).to
}

func (m *Market) mark(types []engine.InstanceType, where []soldout.Place) []engine.InstanceType {
	out := slices.Clone(types)
	for i := range out {
		cloned := false
		for j := range out[i].Offerings {
			o := &out[i].Offerings[j]
			p := slices.IndexFunc(where, func(p soldout.Place) bool { return p.Zone == o.Zone })
			if o.SoldOut && !o.Unpriced || p < 0 || m.marks.Reason(out[i].Name, o.CapacityType, where[p]) == "" {
				continue
			}
			if !cloned {
				out[i].Offerings = slices.Clone(out[i].Offerings)
				o, cloned = &out[i].Offerings[j], true
			}
			o.SoldOut, o.Unpriced = true, false
		}
	}
	return out
}
