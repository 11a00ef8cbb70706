package bound

import (
	"math"
	"slices"
)

// Fillings is a lower bound from whole machines: it buys fractions of fillings, each a supply with pods that fit on it, while Bound buys fractions of
// resources. So Fillings, unlike Bound, also pays for the part of a machine into which no pod fits.
type Fillings struct {
	// Value is the least possible price of machines that hold the pods.
	Value float64
	// Worth is, for each demand, the worth of one pod: no filling of a supply is worth more than the supply costs.
	Worth []float64

	generation *generation
}

// Filling is a supply with pods that fit on it.
type Filling struct {
	Supply int // index into Problem.Supplies, or after these into Problem.Existing
	Loads  []Load
	Price  float64 // the supply's price; for existing machines, one arbitrary price for all
	// Machines is the number of machines with this filling that are bought.
	Machines float64

	supply *supply
}

// Load is a number of pods of one demand.
type Load struct{ Demand, Count int }

// worth returns the worth of the filling's pods.
func (f *Filling) worth(each []float64) float64 {
	sum := 0.0
	for _, l := range f.Loads {
		sum += float64(float64(l.Count) * each[l.Demand])
	}
	return sum
}

// MostKinds bounds the demands and kinds of existing machines for which Fillings looks for fillings. mostRounds bounds its rounds.
const (
	MostKinds  = 200
	mostRounds = 300
)

// Fillings finds the bound by column generation (P. C. Gilmore and R. E. Gomory, 1961): it finds prices of pods at which the fillings so
// far are worth their price, then for each supply the filling that is worth most at these prices, until no filling is worth more than it
// costs. The prices of every round, reduced until no filling is worth more than its supply, are a bound (A. A. Farley, 1990), so the search
// may end at any time. effort is in steps of the search for fillings. The result is nil if no supply takes any pod, if there are more than
// MostKinds demands and kinds of existing machines, if a demand requests nothing, or if a supply costs nothing.
func (b *Bound) Fillings(effort int) *Fillings {
	g := &generation{b: b, effort: effort, dims: slices.Concat(b.dims, b.devices), limit: stepsForOne * raise}
	if len(b.demands)+len(b.existing) > MostKinds {
		return nil
	}
	for i := range b.demands {
		g.left = append(g.left, b.demands[i].Count)
	}
	g.left = append(g.left, b.counts...)
	if g.begin(); len(g.of) == 0 || slices.ContainsFunc(g.of, g.asksNothing) || slices.ContainsFunc(b.supplies, func(s supply) bool { return s.Price <= 0 }) {
		return nil
	}
	out := &Fillings{Worth: make([]float64, len(b.demands)), generation: g}
	for _, i := range g.of {
		out.Worth[i] = b.podWorth(&b.demands[i])
		if len(b.existing) == 0 {
			out.Value += float64(float64(g.left[i]) * out.Worth[i])
		}
	}
	calm := calmly
	seen, price, value := effort, math.Inf(1), 0.0 // the state at the last check for progress
search:
	for range mostRounds {
		if g.effort <= 0 || b.stop != nil && b.stop() {
			break
		}
		if seen-g.effort > max(effort/tail, leastTail) {
			now := g.price()
			if price-now < little*now && out.Value-value < little*out.Value {
				break
			}
			seen, price, value = g.effort, now, out.Value
		}
		found, open := g.round(out, calm)
		switch {
		case found:
			calm = calmly
			g.limit = stepsForOne * raise
		case open:
			g.limit = min(g.limit*raise, effort)
		case calm == 0:
			break search
		default:
			if calm /= 2; calm < calmly/8 {
				calm = 0
			}
		}
	}
	g.effort = effort / wholePart
	out.Value *= 1 - 1e-12
	return out
}

// The price of the fractions falls ever more slowly (the tailing off of column generation, M. E. Lübbecke and J. Desrosiers, 2005). The
// search ends if 1/tail of the effort, but at least leastTail steps, has neither lowered this price nor raised the bound by the share
// "little".
const (
	tail      = 8
	leastTail = 200_000
	little    = 2e-3
)

// calmly is the weight of the prices of the best bound so far beside the latest prices, which vary much (P. Wentges, Weighted Dantzig–Wolfe
// decomposition for linear mixed-integer programming, 1997). If a round finds nothing, the latest prices get more weight.
const calmly = 0.8

// generation is the state of the search for fillings.
type generation struct {
	b      *Bound
	of     []int // the demands with pods that some supply takes
	left   []int // pods of each demand, then machines of each kind of existing ones
	dims   []int // the requested resources
	master *master
	pool   []Filling
	limit  int // the most steps of the search on one supply
	effort int
	table  []float64 // the table of the last knapsack; the next one uses its memory
}

// begin buys machines for the pods that are left, for each demand alone.
func (g *generation) begin() {
	g.of = g.of[:0]
	var first []Filling
	for i := range g.b.demands {
		if f, ok := g.alone(i); ok {
			g.of, first = append(g.of, i), append(first, f)
		}
	}
	of := slices.Clone(g.of)
	for i := range g.b.existing {
		if e := len(g.b.demands) + i; g.left[e] > 0 && len(g.of) > 0 {
			of, first = append(of, e), append(first, g.onExisting(i, nil))
		}
	}
	g.master = newMaster(of, g.left, first)
	g.master.demands = len(g.of)
}

// onExisting returns the filling of an existing machine. The filling takes one of the machines that are left, like a pod. All such fillings have the
// same price, also the filling without pods, so none is better because of its price.
func (g *generation) onExisting(i int, loads []Load) Filling {
	s := &g.b.existing[i]
	return Filling{Supply: s.index, Price: g.b.supplies[0].Price, Loads: append(slices.Clone(loads), Load{len(g.b.demands) + i, 1}), supply: s}
}

// price returns the price of the machines of the basis, without existing machines.
func (g *generation) price() float64 {
	sum := 0.0
	for _, f := range g.master.basis {
		if !slices.ContainsFunc(f.Loads, func(l Load) bool { return l.Demand >= len(g.b.demands) }) {
			sum += float64(f.Machines * f.Price)
		}
	}
	return sum
}

// alone returns the filling with pods of one demand at the least price for each pod; it reports false if no supply takes any.
func (g *generation) alone(i int) (Filling, bool) {
	w := &g.b.demands[i]
	out, least := Filling{}, math.Inf(1)
	for k := range g.b.supplies {
		s := &g.b.supplies[k]
		if g.left[i] == 0 || !able(w, s) || !s.leads(i) {
			continue
		}
		if n := w.most(s.size, g.left[i]); n > 0 && s.Price/float64(n) < least {
			least = s.Price / float64(n)
			out = Filling{Supply: s.index, Price: s.Price, Loads: []Load{{i, n}}, supply: s}
		}
	}
	return out, out.Loads != nil
}

// asksNothing reports whether pods of the demand request no resource, so that any number of them fits on a machine.
func (g *generation) asksNothing(i int) bool {
	return !slices.ContainsFunc(g.dims, func(d int) bool { return g.b.demands[i].Request[d] > 0 })
}

// leads reports whether the supply may be bought for a pod of the demand.
func (s *supply) leads(demand int) bool { return s.Leads == nil || s.Leads.Has(demand) }

// stepsForOne is the first limit on the steps of the search for the best filling of one supply. Fillings multiplies the limit by raise if it is too
// low.
const (
	stepsForOne = 500
	raise       = 4
)

// round looks for fillings that are worth more than they cost, buys them, and updates the bound with the prices of this round. found is
// false if it bought none; open is true if a search ended before it had tried everything.
func (g *generation) round(out *Fillings, calm float64) (found, open bool) {
	worth := make([]float64, len(out.Worth))
	sum, over := 0.0, 1.0
	for _, i := range g.of {
		worth[i] = float64(calm*out.Worth[i]) + float64((1-calm)*max(0, g.master.worth[i]))
		sum += float64(float64(g.left[i]) * worth[i])
	}
	changes := g.master.changes
	for i := range g.b.supplies {
		s := &g.b.supplies[i]
		k := g.fullest(s, worth, max(stepsForOne, min(g.limit, g.effort)))
		over = max(over, k.most/s.Price)
		open = open || k.steps > k.limit
		for _, f := range k.better {
			if f.worth(g.master.worth) > f.Price*(1+negligible) {
				g.pool = append(g.pool, f)
			}
		}
	}
	if len(g.b.existing) > 0 {
		sum *= 1 - 1e-12 // because an almost equal amount may be subtracted
	}
	for i := range g.b.existing {
		n := g.left[len(g.b.demands)+i]
		if n == 0 {
			continue
		}
		k := g.fullest(&g.b.existing[i], worth, max(stepsForOne, min(g.limit, g.effort)))
		sum -= float64(float64(n) * k.most)
		open = open || k.steps > k.limit
		for _, f := range k.better {
			if f = g.onExisting(i, f.Loads); f.worth(g.master.worth) > f.Price*(1+negligible) {
				g.pool = append(g.pool, f)
			}
		}
	}
	if value := sum / over; value > out.Value {
		out.Value = value
		for _, i := range g.of {
			out.Worth[i] = worth[i] / over
		}
	}
	g.effort -= g.master.buy(g.pool)
	return g.master.changes > changes, open
}

// negligible is the share by which one amount has to exceed another to be treated as greater.
const negligible = 1e-9
