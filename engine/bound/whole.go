package bound

import (
	"cmp"
	"slices"
)

// soonWhole is the least fraction of a machine for which a whole machine is bought. roundsAgain bounds the rounds of the search for fillings after
// each purchase.
const (
	soonWhole   = 0.75
	roundsAgain = 4
	// Whole may use 1/wholePart of the effort.
	wholePart = 4
)

// Whole buys whole machines for all pods. First it buys, of each filling, as many as its fraction has in full. Then, for the pods that are left, it
// buys the machines with the largest fractions, with new fractions for the rest each time. It leaves pods that no supply takes, and further pods once
// the effort is spent. It may be called only once.
func (f *Fillings) Whole() []Filling {
	g := f.generation
	var out []Filling
	for len(g.of) > 0 {
		before := len(out)
		for j := range g.master.basis {
			b := &g.master.basis[j]
			n := int(b.Machines + negligible)
			for _, l := range b.Loads {
				n = min(n, g.left[l.Demand]/l.Count)
			}
			if b.Supply != nobody && n > 0 {
				out = append(out, g.take(*b, n))
				b.Machines -= float64(n)
			}
		}
		parts := g.master.bought()
		slices.SortStableFunc(parts, func(a, b Filling) int { return cmp.Compare(b.Machines, a.Machines) })
		for _, b := range parts {
			if len(out) > before && b.Machines < soonWhole {
				break
			}
			if b = g.trimmed(b); len(b.Loads) > 0 {
				out = append(out, g.take(b, 1))
			}
		}
		if len(out) == before || g.effort <= 0 {
			break
		}
		g.again()
	}
	for i := range out {
		if f := &out[i]; f.Loads[len(f.Loads)-1].Demand >= len(g.b.demands) { // an existing machine, not a pod
			f.Loads = f.Loads[:len(f.Loads)-1]
		}
	}
	return slices.DeleteFunc(out, func(f Filling) bool { return len(f.Loads) == 0 })
}

// again buys fractions of machines for the pods that are left.
func (g *generation) again() {
	var pool []Filling
	for _, f := range g.pool {
		if f = g.trimmed(f); len(f.Loads) > 0 {
			pool = append(pool, f)
		}
	}
	g.pool, g.limit = pool, stepsForOne
	g.begin()
	g.effort -= g.master.buy(g.pool)
	rest := &Fillings{Worth: make([]float64, len(g.left))}
	for range roundsAgain {
		if found, _ := g.round(rest, 0); !found {
			break
		}
	}
}

// take buys n machines of the filling.
func (g *generation) take(f Filling, n int) Filling {
	for _, l := range f.Loads {
		g.left[l.Demand] -= l.Count * n
	}
	f.Machines = float64(n)
	return f
}

// trimmed returns the filling with no more pods than are left. It leaves out all pods if the supply may not be bought for any of these.
func (g *generation) trimmed(f Filling) Filling {
	var loads []Load
	led := false
	for _, l := range f.Loads {
		n := min(l.Count, g.left[l.Demand])
		if n > 0 {
			loads = append(loads, Load{l.Demand, n})
			led = led || f.supply.leads(l.Demand)
		} else if l.Demand >= len(g.b.demands) {
			led = false // no machine of this kind is left
		}
	}
	if f.Loads = loads; !led {
		f.Loads = nil
	}
	return f
}
