package bound

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine/capacity"
)

// Fillings is a lower bound that knows whole machines: it buys fractions of fillings, each a supply with pods that fit on it, where
// Bound buys fractions of resources. What a machine has left over because no pod fits any more is paid for here.
type Fillings struct {
	// Value is what machines that hold the pods cost at least.
	Value float64
	// Worth is, of each demand, what one pod is worth: whatever fits on a supply is worth no more than it costs.
	Worth []float64
}

// mostKinds bounds the demands for which fillings are looked for, mostRounds how many rounds that takes. With more of either the
// bound hardly gains and costs as much time as the plan.
const (
	mostKinds  = 16
	mostRounds = 40
)

// Fillings finds the bound by generating columns (P. C. Gilmore and R. E. Gomory, 1961): prices of pods at which the fillings so far
// are worth their price, then on each supply the filling that is worth most at these, until none is worth more than it costs. In
// every round the prices, made so much smaller that no filling is worth more than its supply, are a bound (A. A. Farley, 1990), so that it may end at
// any time. Effort is in steps of the search for fillings. The answer is nil where there are too many demands, or none.
func (b *Bound) Fillings(effort int) *Fillings {
	g := &generation{b: b, effort: effort, out: &Fillings{Worth: make([]float64, len(b.demands))}}
	for i := range b.demands {
		if b.demands[i].Count > 0 && g.begin(i) {
			g.of = append(g.of, i)
		}
	}
	if len(g.of) == 0 || len(g.of) > mostKinds || slices.ContainsFunc(b.supplies, func(s supply) bool { return s.Price <= 0 }) {
		return nil
	}
	g.narrow()
	for range mostRounds {
		worth := g.prices()
		if !g.widen(worth) || g.effort <= 0 {
			break
		}
	}
	g.out.Value *= 1 - 1e-12
	return g.out
}

// generation is the state of the search for fillings that matter.
type generation struct {
	b      *Bound
	of     []int // the demands that some supply takes
	dims   []int
	rows   [][]float64 // fillings: of each demand, the share of its pods
	costs  []float64
	effort int
	out    *Fillings
}

// begin adds the filling that holds pods of one demand at the least price for each; it answers false if no supply takes any.
func (g *generation) begin(i int) bool {
	w := &g.b.demands[i]
	best, least := 0, math.Inf(1)
	price := 0.0
	for k := range g.b.supplies {
		s := &g.b.supplies[k]
		if !able(w, s) {
			continue
		}
		if n := w.Request.Times(s.size, w.Count); n > 0 && s.Price/float64(n) < least {
			best, least, price = n, s.Price/float64(n), s.Price
		}
	}
	if best == 0 {
		return false
	}
	row := make([]float64, len(g.b.demands))
	row[i] = float64(best) / float64(w.Count)
	g.rows, g.costs = append(g.rows, row), append(g.costs, price)
	return true
}

// narrow leaves the columns of the demands that count, and finds the resources that are asked for.
func (g *generation) narrow() {
	for k, row := range g.rows {
		short := make([]float64, len(g.of))
		for j, i := range g.of {
			short[j] = row[i]
		}
		g.rows[k] = short
	}
	g.dims = slices.Concat(g.b.dims, g.b.devices)
}

// prices are those of one pod of each demand at which all pods are worth most and no filling so far more than its price.
func (g *generation) prices() []float64 {
	_, exponent := math.Frexp(slices.Max(g.costs))
	right := make([]float64, len(g.costs))
	for i, c := range g.costs {
		right[i] = math.Ldexp(c, -exponent)
	}
	x := maximise(slices.Repeat([]float64{1}, len(g.of)), g.rows, right, 40*(len(g.rows)+len(g.of)))
	for j, i := range g.of {
		x[j] = math.Ldexp(x[j], exponent) / float64(g.b.demands[i].Count)
	}
	return x
}

// widen adds the fillings that are worth more than they cost, and keeps the bound that the prices give; it answers false if there
// are no such fillings.
func (g *generation) widen(worth []float64) bool {
	type found struct {
		pods  []int
		ratio float64
		price float64
	}
	var list []found
	over := 1.0
	for k := range g.b.supplies {
		s := &g.b.supplies[k]
		f := g.fullest(s, worth)
		over = max(over, f.most/s.Price)
		if f.best > s.Price*(1+1e-9) {
			list = append(list, found{f.pods, f.best / s.Price, s.Price})
		}
	}
	sum := 0.0
	for j, i := range g.of {
		sum += float64(float64(g.b.demands[i].Count) * worth[j])
	}
	if value := sum / over; value > g.out.Value {
		g.out.Value = value
		for j, i := range g.of {
			g.out.Worth[i] = worth[j] / over
		}
	}
	slices.SortStableFunc(list, func(a, b found) int { return cmp.Compare(b.ratio, a.ratio) })
	for _, f := range list[:min(len(list), len(g.of)+4)] {
		row := make([]float64, len(g.of))
		for j, i := range g.of {
			row[j] = float64(f.pods[j]) / float64(g.b.demands[i].Count)
		}
		g.rows, g.costs = append(g.rows, row), append(g.costs, f.price)
	}
	return len(list) > 0
}

// stepsForOne bounds the search for the best filling of one supply.
const stepsForOne = 2000

// knapsack looks for the pods that are worth most together on one supply.
type knapsack struct {
	g     *generation
	items []int // indexes into generation.of, those that are worth most for what they ask first
	worth []float64
	room  capacity.Vector
	pods  []int // of the best filling
	trial []int
	best  float64
	most  float64 // no filling is worth more
	steps int
}

// fullest is the best filling of the supply at the prices.
func (g *generation) fullest(s *supply, worth []float64) *knapsack {
	k := &knapsack{g: g, worth: worth, room: s.size.Clone(), pods: make([]int, len(g.of)), trial: make([]int, len(g.of))}
	rank := make([]float64, len(g.of))
	for j, i := range g.of {
		w := &g.b.demands[i]
		if worth[j] <= 0 || !able(w, s) || w.Request.Times(s.size, 1) == 0 {
			continue
		}
		part := 0.0
		for _, d := range g.dims {
			if w.Request[d] > 0 {
				part += float64(w.Request[d]) / float64(s.size[d])
			}
		}
		rank[j] = worth[j] / part
		k.items = append(k.items, j)
	}
	slices.SortStableFunc(k.items, func(a, b int) int { return cmp.Compare(rank[b], rank[a]) })
	root := k.atMost(0)
	k.try(0, 0)
	if k.most = k.best; k.steps > stepsForOne {
		k.most = root
	}
	g.effort -= k.steps
	return k
}

// try fills what room is left with pods of the items from the i-th on.
func (k *knapsack) try(i int, value float64) {
	if value > k.best {
		k.best = value
		copy(k.pods, k.trial)
	}
	if i == len(k.items) || k.steps > stepsForOne {
		return
	}
	k.steps++
	j := k.items[i]
	w := &k.g.b.demands[k.g.of[j]]
	most := w.Request.Times(k.room, w.Count)
	k.room.Add(w.Request, -int64(most))
	for n := most; n >= 0; n-- {
		k.trial[j] = n
		sum := value + float64(float64(n)*k.worth[j])
		if sum+k.atMost(i+1) > k.best*(1+1e-12) {
			k.try(i+1, sum)
		}
		if n > 0 {
			k.room.Add(w.Request, 1)
		}
	}
	k.trial[j] = 0
}

// atMost is no less than the pods of the items from the i-th on can be worth in the room: the least, of all resources, that parts
// of pods are worth that share this one.
func (k *knapsack) atMost(i int) float64 {
	all := 0.0
	for _, j := range k.items[i:] {
		w := &k.g.b.demands[k.g.of[j]]
		all += float64(float64(w.Request.Times(k.room, w.Count)) * k.worth[j])
	}
	for _, d := range k.g.dims {
		best := 0.0 // worth of a unit
		free := 0.0 // worth of those that ask for none of it
		for _, j := range k.items[i:] {
			w := &k.g.b.demands[k.g.of[j]]
			if w.Request[d] > 0 {
				best = max(best, k.worth[j]/float64(w.Request[d]))
			} else {
				free += float64(float64(w.Request.Times(k.room, w.Count)) * k.worth[j])
			}
		}
		all = min(all, free+float64(float64(k.room[d])*best))
	}
	return all * (1 + 1e-12)
}
