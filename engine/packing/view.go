package packing

import (
	"encoding/binary"
	"slices"
	"sync"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/topology"
)

// view is the division of places into domains by some label keys: places with equal values of these keys are one domain. It is made for rules that
// depend only on these keys.
type view struct {
	keys []int
	// domainAt maps each place to the index of its domain.
	domainAt []int
	// domains holds each domain as a place that has values of the view's keys only.
	domains []topology.Place
	// options lists, for each domain, the options of all pools there. For each pool, its listed options come first, cheapest first, then
	// the others. offers is the number of all options.
	options [][]offered
	offers  int
	// partly lists domains that lack a value of some key.
	partly []int
}

// offered is an option of a pool.
type offered struct{ pool, option int }

// views keeps one view for each set of keys. Several goroutines may use it at a time.
type views struct {
	mu   sync.Mutex // guards list
	list []*view
}

func (v *views) of(p *Problem, pools []supplyPool, keys []int) *view {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, have := range v.list {
		if slices.Equal(have.keys, keys) {
			return have
		}
	}
	made := newView(p, pools, keys)
	p.looked.Add(int64(len(p.Places) + made.offers))
	v.list = append(v.list, made)
	return made
}

func newView(p *Problem, pools []supplyPool, keys []int) *view {
	v := &view{keys: keys, domainAt: make([]int, len(p.Places))}
	known := map[string]int{}
	var text []byte
	for i, place := range p.Places {
		text = text[:0]
		for _, k := range keys {
			text = binary.LittleEndian.AppendUint32(text, uint32(place[k]))
		}
		at, ok := known[string(text)]
		if !ok {
			at = len(v.domains)
			known[string(text)] = at
			v.domains = append(v.domains, v.domainOf(place))
		}
		v.domainAt[i] = at
	}
	v.options = make([][]offered, len(v.domains))
	for domain, labels := range v.domains {
		if slices.ContainsFunc(keys, func(k int) bool { return labels[k] < 0 }) {
			v.partly = append(v.partly, domain)
		}
	}
	add := func(pool, option int) {
		v.offers++
		domain := v.domainAt[pools[pool].Options[option].Place]
		v.options[domain] = append(v.options[domain], offered{pool, option})
	}
	for i := range pools {
		for _, o := range pools[i].byPrice {
			add(i, o)
		}
		for o := range pools[i].Options {
			if !pools[i].Options[o].Listed {
				add(i, o)
			}
		}
	}
	return v
}

// domainOf returns the place with the view's keys alone.
func (v *view) domainOf(place topology.Place) topology.Place {
	domain := make(topology.Place, len(place))
	for k := range domain {
		domain[k] = topology.Nowhere
	}
	for _, k := range v.keys {
		domain[k] = place[k]
	}
	return domain
}

// narrowed returns the part of the ways in one domain. It returns nil if there is none.
func (v *view) narrowed(pools []supplyPool, ways *Ways, domain int) *Ways {
	if len(v.domains) == 1 {
		return ways
	}
	out := &Ways{Pools: make([][]Way, len(pools))}
	any := false
	for rest := v.options[domain]; len(rest) > 0; {
		p, n := rest[0].pool, 1
		for n < len(rest) && rest[n].pool == p {
			n++
		}
		for _, way := range ways.Pools[p] {
			var options bitset.Set
			for _, at := range rest[:n] {
				if way.Options.Has(at.option) {
					if options == nil {
						options = bitset.New(len(pools[p].Options))
					}
					options.Add(at.option)
				}
			}
			if options != nil {
				out.Pools[p] = append(out.Pools[p], Way{Options: options, Free: way.Free})
				any = true
			}
		}
		rest = rest[n:]
	}
	if !any {
		return nil
	}
	return out
}

// domainsOf returns, for each domain of another view, the domain of this one that contains it. The other view has all keys of this one.
func (v *view) domainsOf(other *view) []int {
	out := make([]int, len(other.domains))
	for place, domain := range other.domainAt {
		out[domain] = v.domainAt[place]
	}
	return out
}

// alike completes an answer for domains that lack a value of some key. The answer is true there if it is true in a domain with the same values of the
// other keys.
func (v *view) alike(in []bool) []bool {
	for _, part := range v.partly {
		for at, domain := range v.domains {
			if in[at] && !slices.ContainsFunc(v.keys, func(k int) bool { return v.domains[part][k] >= 0 && domain[k] != v.domains[part][k] }) {
				in[part] = true
				break
			}
		}
	}
	return in
}

// viewOf returns the view of some label keys, which are in ascending order.
func (pl *placement) viewOf(keys []int) *view {
	return pl.lessons.frame.views.of(pl.p, pl.lessons.frame.pools, keys)
}
