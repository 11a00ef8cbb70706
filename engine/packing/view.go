package packing

import (
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/topology"
)

// view is the world as rules see it that depend on some keys only: places that do not differ in these keys are one domain.
type view struct {
	keys []int
	// spotOf maps each place to its domain.
	spotOf []int
	// domains holds each domain as a place: the other keys are nowhere.
	domains []topology.Place
	// options holds, for each domain and pool, the options there.
	options [][]bitset.Set
}

// views keeps one view for each set of keys.
type views struct {
	p    *Problem
	list []*view
}

func (v *views) of(keys []int) *view {
	for _, have := range v.list {
		if slices.Equal(have.keys, keys) {
			return have
		}
	}
	made := newView(v.p, keys)
	v.list = append(v.list, made)
	return made
}

func newView(p *Problem, keys []int) *view {
	v := &view{keys: keys, spotOf: make([]int, len(p.Places))}
	for i, place := range p.Places {
		spot := make(topology.Place, len(place))
		for k := range spot {
			spot[k] = topology.Nowhere
		}
		for _, k := range keys {
			spot[k] = place[k]
		}
		at := slices.IndexFunc(v.domains, func(s topology.Place) bool { return slices.Equal(s, spot) })
		if at < 0 {
			at = len(v.domains)
			v.domains = append(v.domains, spot)
		}
		v.spotOf[i] = at
	}
	v.options = make([][]bitset.Set, len(v.domains))
	for s := range v.domains {
		for i := range p.Pools {
			v.options[s] = append(v.options[s], bitset.New(len(p.Pools[i].Options)))
		}
	}
	for i := range p.Pools {
		for o := range p.Pools[i].Options {
			v.options[v.spotOf[p.Pools[i].Options[o].Place]][i].Add(o)
		}
	}
	return v
}

// narrowed is what the ways leave in one domain; nil if that is nothing.
func (v *view) narrowed(ways *Ways, spot int) *Ways {
	if len(v.domains) == 1 {
		return ways
	}
	out := &Ways{Pools: make([][]Way, len(v.options[spot]))}
	any := false
	for p := range v.options[spot] {
		for _, way := range ways.Pools[p] {
			options := way.Options.Clone()
			options.And(v.options[spot][p])
			if !options.Empty() {
				out.Pools[p] = append(out.Pools[p], Way{Options: options, Free: way.Free})
				any = true
			}
		}
	}
	if !any {
		return nil
	}
	return out
}
