package market

import (
	"fmt"
	"slices"

	"tenon.sh/engine"
	"tenon.sh/provider/aws/soldout"
)

// marked returns the catalog with sold-out offerings marked. Types without marks are shared with the original.
func (m *Market) marked(want Want, types []engine.InstanceType) []engine.InstanceType {
	if m.marks.None() || len(types) == 0 {
		return types
	}
	places := want.places()
	var where []soldout.Place
	for _, p := range places {
		where = append(where, want.soldOutPlace(p))
	}
	// The key has the catalog's address in place of its contents. The value keeps the catalog in memory, so no other catalog can get this
	// address.
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
