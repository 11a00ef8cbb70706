package bound

import (
	"cmp"
	"slices"
)

// soonWhole is the part of a machine above which a whole one is bought, roundsAgain how many rounds of the search for fillings there
// are each time that machines have been bought.
const (
	soonWhole   = 0.75
	roundsAgain = 4
	// wholePart is the part of the effort, one of so many, that goes into them.
	wholePart = 4
)

// Whole buys whole machines for all pods: as many of each filling as the fractions hold, and then, for the pods that are left, the
// machines of which most is bought, with new fractions for the rest each time. Pods are left that nobody sells a machine for, and
// others once the effort is spent. It may be asked once.
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
		if f := &out[i]; f.Loads[len(f.Loads)-1].Demand >= len(g.b.demands) { // not a pod
			f.Loads = f.Loads[:len(f.Loads)-1]
		}
	}
	return slices.DeleteFunc(out, func(f Filling) bool { return len(f.Loads) == 0 })
}

// again buys fractions for the pods that are left.
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

// take buys n machines.
func (g *generation) take(f Filling, n int) Filling {
	for _, l := range f.Loads {
		g.left[l.Demand] -= l.Count * n
	}
	f.Machines = float64(n)
	return f
}

// trimmed is the filling with no more pods than are left; without pods if nothing that is left is reason enough to buy it.
func (g *generation) trimmed(f Filling) Filling {
	var loads []Load
	led := false
	for _, l := range f.Loads {
		n := min(l.Count, g.left[l.Demand])
		if n > 0 {
			loads = append(loads, Load{l.Demand, n})
			led = led || f.supply.leads(l.Demand)
		} else if l.Demand >= len(g.b.demands) {
			led = false // no such machine is left
		}
	}
	if f.Loads = loads; !led {
		f.Loads = nil
	}
	return f
}
