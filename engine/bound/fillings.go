package bound

import (
	"math"
	"slices"
)

// Fillings is a lower bound that knows whole machines: it buys fractions of fillings, each a supply with pods that fit on it, where
// Bound buys fractions of resources. What a machine has left over because no pod fits any more is paid for here.
type Fillings struct {
	// Value is what machines that hold the pods cost at least.
	Value float64
	// Worth is, of each demand, what one pod is worth: whatever fits on a supply is worth no more than it costs.
	Worth []float64

	generation *generation
}

// Filling is a supply with pods that fit on it.
type Filling struct {
	Supply int // of Problem.Supplies, and after these of Problem.Existing
	Loads  []Load
	Price  float64 // of existing machines any, the same for all
	// Machines is how many of them are bought.
	Machines float64

	supply *supply
}

// Load is a number of pods of one demand.
type Load struct{ Demand, Count int }

// worth is that of the pods.
func (f *Filling) worth(each []float64) float64 {
	sum := 0.0
	for _, l := range f.Loads {
		sum += float64(float64(l.Count) * each[l.Demand])
	}
	return sum
}

// MostKinds bounds the demands for which fillings are looked for, mostRounds how many rounds that takes.
const (
	MostKinds  = 200
	mostRounds = 300
)

// Fillings finds the bound by generating columns (P. C. Gilmore and R. E. Gomory, 1961): prices of pods at which the fillings so far
// are worth their price, then on each supply the filling that is worth most at these, until none is worth more than it costs. In
// every round the prices, made so much smaller that no filling is worth more than its supply, are a bound (A. A. Farley, 1990), so that it may end at
// any time. Effort is in steps of the search for fillings. The answer is nil where there are no demands or more than MostKinds, where one asks for
// nothing, or a supply costs nothing.
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
	seen, price, value := effort, math.Inf(1), 0.0 // the last time that it was asked whether there is progress
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

// What the fractions cost falls ever more slowly (the tailing off of column generation, M. E. Lübbecke and J. Desrosiers, 2005): where a part of the
// effort, one of so many, but no less than some steps, has neither made it less by this share nor the bound more, the rest is not worth the time.
const (
	tail      = 32
	leastTail = 200_000
	little    = 1e-3
)

// calmly is how much the prices that gave the best bound so far count beside the latest ones, which jump about (P. Wentges,
// Weighted Dantzig–Wolfe decomposition for linear mixed-integer programming, 1997). If nothing is found the latest count more.
const calmly = 0.8

// generation is the state of the search for fillings that matter.
type generation struct {
	b      *Bound
	of     []int // the demands with pods that some supply takes
	left   []int // pods of each demand, then machines of each of the existing
	dims   []int // the resources that are asked for
	master *master
	pool   []Filling
	limit  int // of the steps of the search on one supply
	effort int
	table  []float64 // that of the last knapsack, whose room the next one uses
}

// begin buys for the pods that are left, those of each demand alone.
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

// onExisting is the filling of a machine that is there already: a machine of it has to be left as if it were a pod. Each costs the same, also
// the one without pods that it has otherwise, so that none is better for that.
func (g *generation) onExisting(i int, loads []Load) Filling {
	s := &g.b.existing[i]
	return Filling{Supply: s.index, Price: g.b.supplies[0].Price, Loads: append(slices.Clone(loads), Load{len(g.b.demands) + i, 1}), supply: s}
}

// price is what the machines of the basis cost that are not there already.
func (g *generation) price() float64 {
	sum := 0.0
	for _, f := range g.master.basis {
		if !slices.ContainsFunc(f.Loads, func(l Load) bool { return l.Demand >= len(g.b.demands) }) {
			sum += float64(f.Machines * f.Price)
		}
	}
	return sum
}

// alone is the filling that holds pods of one demand at the least price for each; it answers false if no supply takes any.
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

// asksNothing reports whether any number of pods of the demand fit on a machine.
func (g *generation) asksNothing(i int) bool {
	return !slices.ContainsFunc(g.dims, func(d int) bool { return g.b.demands[i].Request[d] > 0 })
}

// leads reports whether a pod of the demand is reason enough to buy the supply.
func (s *supply) leads(demand int) bool { return s.Leads == nil || s.Leads.Has(demand) }

// stepsForOne bounds the search for the best filling of one supply at first; it is raised where that proves too little.
const (
	stepsForOne = 500
	raise       = 4
)

// round looks for fillings that are worth more than they cost, buys them, and keeps the bound that the prices give. Found is false if none
// was bought, open is true if a search ended before it had tried everything.
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
		sum *= 1 - 1e-12 // what is taken from it may be as much
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

// negligible is by what share one amount has to be more than another to count as more.
const negligible = 1e-9
