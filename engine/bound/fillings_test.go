package bound

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tenon.sh/engine/capacity"
)

// A machine of four holds one pod of three, and no other pod. By resources, a quarter of each machine is left for others.
func TestFillingsPayForWhatNoPodFitsInto(t *testing.T) {
	t.Parallel()
	p := &Problem{
		Demands:  []Demand{{0, capacity.Vector{3, 1}, 10, 0}, {0, capacity.Vector{2, 1}, 2, 0}},
		Supplies: []Supply{{capacity.Vector{4, 8}, 1, users(1, 0), nil}, {capacity.Vector{4, 16}, 2, users(1, 0), nil}},
		Devices:  make([]bool, 2),
	}
	b := Of(p)
	if got := b.Fillings(1000).Value; b.Value > 8.6 || math.Abs(got-11) > 1e-6 {
		t.Errorf("by resources %g, by fillings %g; want 8.5 and 11", b.Value, got)
	}
}

// With any effort, fillings bound every packing from below, and at their prices no filling is worth more than its supply. Whole machines
// hold all pods, for little more.
func TestLawNoPackingIsCheaperThanItsFillings(t *testing.T) {
	t.Parallel()
	better, tight, cheap := 0, 0, 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 26))
		p := drawProblem(random)
		for i := range len(p.Supplies) - 1 { // any pod may use the last one
			if random.IntN(3) == 0 {
				p.Supplies[i].Leads = users(len(p.Demands), random.IntN(len(p.Demands)))
			}
		}
		b, best := Of(&p), cheapest(&p)
		for _, effort := range []int{1, 10, 10_000} {
			f := b.Fillings(effort)
			if f.Value > best*(1+1e-9) {
				t.Errorf("seed %d: with effort %d fillings cost %g at least, and %g is enough", seed, effort, f.Value, best)
			}
			for i := range p.Supplies {
				if worth := mostWorth(&p, f.Worth, 0, p.Supplies[i].Allocatable.Clone(), i, false); worth > p.Supplies[i].Price*(1+1e-9) {
					t.Errorf("seed %d: with effort %d a machine of %g is worth %g", seed, effort, p.Supplies[i].Price, worth)
				}
			}
			if effort == 10_000 && f.Value > b.Value*1.01 {
				better++
			}
			if effort == 10_000 && f.Value > best*0.9 {
				tight++
			}
			if effort < 10_000 {
				continue // some pods may be left
			}
			if price := checkWhole(t, &p, f.Whole()); price < best*(1-1e-9) {
				t.Errorf("seed %d: whole machines cost %g, less than the cheapest packing, %g", seed, price, best)
			} else if price < best*(1+1e-9) {
				cheap++
			}
			if t.Failed() {
				t.Fatalf("seed %d, effort %d: %+v", seed, effort, p)
			}
		}
	}
	if better < 60 || tight < 250 || cheap < 270 {
		t.Errorf("of 300 bounds %d are better by fillings, %d within a tenth of the cheapest packing, and %d times whole machines cost as much as that: that is too few", better, tight, cheap)
	}
}

// Existing machines cost nothing, and each can be used once. With them, fillings also bound every packing from below, and whole machines
// hold all pods for little more.
func TestLawExistingMachinesCostNothing(t *testing.T) {
	t.Parallel()
	tight, cheap, saved := 0, 0, 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 29))
		p := drawProblem(random)
		without := cheapest(&p)
		for range 1 + random.IntN(2) {
			p.Existing = append(p.Existing, Existing{capacity.Vector{2 + random.Int64N(9), 2 + random.Int64N(9), random.Int64N(2)}, users(2, 0, random.IntN(2)), 1 + random.IntN(3)})
		}
		b, best := Of(&p), cheapest(&p)
		if best < without {
			saved++
		}
		for _, effort := range []int{1, 10, 10_000} {
			f := b.Fillings(effort)
			if f.Value > best*(1+1e-9) {
				t.Errorf("seed %d: with effort %d fillings cost %g at least, and %g is enough", seed, effort, f.Value, best)
			}
			if effort < 10_000 {
				continue // some pods may be left
			}
			if f.Value >= best*0.9 {
				tight++
			}
			fractions := 0.0
			for _, m := range f.generation.master.basis {
				if m.Supply < len(p.Supplies) {
					fractions += m.Price * m.Machines
				}
			}
			if math.Abs(fractions-f.Value) > 1e-6 {
				t.Errorf("seed %d: fractions of fillings cost %g, and %g at least", seed, fractions, f.Value)
			}
			if price := checkWhole(t, &p, f.Whole()); price < best*(1-1e-9) {
				t.Errorf("seed %d: whole machines cost %g, less than the cheapest packing, %g", seed, price, best)
			} else if price <= best*(1+1e-9) {
				cheap++
			}
			if t.Failed() {
				t.Fatalf("seed %d, effort %d: %+v", seed, effort, p)
			}
		}
	}
	if tight < 230 || cheap < 260 || saved < 150 {
		t.Errorf("of 300 bounds %d are within a tenth of the cheapest packing, and %d times whole machines cost as much as that; %d times existing ones save something: that is too few", tight, cheap, saved)
	}
}

// checkWhole returns the price of the machines. It checks that the machines hold all pods, and may be bought for these pods.
func checkWhole(t *testing.T, p *Problem, list []Filling) float64 {
	t.Helper()
	left := make([]int, len(p.Demands))
	for i, d := range p.Demands {
		left[i] = d.Count
	}
	price := 0.0
	used := make([]int, len(p.Existing))
	for _, f := range list {
		s := &Supply{}
		if at := f.Supply - len(p.Supplies); at < 0 {
			s = &p.Supplies[f.Supply]
		} else {
			e := &p.Existing[at]
			s.Allocatable, s.Users = e.Room, e.Users
			if used[at] += int(f.Machines); used[at] > e.Count {
				t.Errorf("existing %d is used %d times, and is there %d times", at, used[at], e.Count)
			}
		}
		room, led := s.Allocatable.Clone(), s.Leads == nil
		for _, l := range f.Loads {
			room.Add(p.Demands[l.Demand].Request, -int64(l.Count))
			left[l.Demand] -= l.Count * int(f.Machines)
			led = led || s.Leads.Has(l.Demand)
			if most := p.Demands[l.Demand].Most; most > 0 && l.Count > most {
				t.Errorf("%d pods of demand %d are on one machine, which takes %d", l.Count, l.Demand, most)
			}
			if !s.Users.Has(p.Demands[l.Demand].User) {
				t.Errorf("pods of demand %d are on supply %d, which is not for them", l.Demand, f.Supply)
			}
		}
		if slices.Min(room) < 0 || !led {
			t.Errorf("supply %d is bought for %v: led %t, room left %v", f.Supply, f.Loads, led, room)
		}
		price += s.Price * f.Machines
	}
	if slices.Max(left) != 0 || slices.Min(left) != 0 {
		t.Errorf("pods left by whole machines: %v", left)
	}
	return price
}

// mostWorth returns the greatest worth of pods of the demands from the i-th on in the room of the supply.
func mostWorth(p *Problem, worth []float64, i int, room capacity.Vector, supply int, led bool) float64 {
	s := &p.Supplies[supply]
	if i == len(p.Demands) {
		if led || s.Leads == nil {
			return 0
		}
		return math.Inf(-1)
	}
	d := &p.Demands[i]
	most := mostWorth(p, worth, i+1, room, supply, led)
	if !s.Users.Has(d.User) {
		return most
	}
	for n := 1; n <= d.most(room, d.Count); n++ {
		left := room.Clone()
		left.Add(d.Request, -int64(n))
		most = max(most, float64(n)*worth[i]+mostWorth(p, worth, i+1, left, supply, led || s.Leads.Has(i)))
	}
	return most
}

// Fillings returns nil if there are too many kinds of pods, if pods request nothing, or if machines cost nothing.
func TestFillingsThatWouldSayNothingAreNone(t *testing.T) {
	t.Parallel()
	one := Problem{Demands: []Demand{{0, capacity.Vector{1, 1}, 3, 0}}, Supplies: []Supply{{capacity.Vector{4, 4}, 1, users(1, 0), nil}}, Devices: make([]bool, 2)}
	many, nothing, free, nobody := one, one, one, one
	many.Demands = slices.Repeat(one.Demands, MostKinds+1)
	nothing.Demands = append(slices.Clone(one.Demands), Demand{0, capacity.Vector{0, 0}, 2, 0})
	free.Supplies = []Supply{{capacity.Vector{4, 4}, 0, users(1, 0), nil}}
	nobody.Demands = nil
	for name, p := range map[string]Problem{"many": many, "nothing": nothing, "free": free, "nobody": nobody} {
		if f := Of(&p).Fillings(1000); f != nil {
			t.Errorf("%s: the bound is %g", name, f.Value)
		}
	}
	if f := Of(&one).Fillings(1000); f == nil || math.Abs(f.Value-1) > 1e-6 {
		t.Errorf("three pods on one machine: %+v", f)
	}
}

// After any number of exchanges, the inverse is the inverse of the basis, and the machines hold the pods.
func TestTheMasterKeepsItsBasis(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 28))
		const kinds = 12
		var of, counts []int
		var first, pool []Filling
		for i := range kinds {
			of, counts = append(of, i), append(counts, 1+random.IntN(90))
			first = append(first, Filling{Price: 1 + random.Float64(), Loads: []Load{{i, 1 + random.IntN(3)}}})
		}
		m := newMaster(of, counts, first)
		for range 60 {
			pool = nil
			for range 20 {
				f := Filling{}
				for i := range kinds {
					if random.IntN(4) == 0 {
						f.Loads = append(f.Loads, Load{i, 1 + random.IntN(4)})
					}
				}
				f.Price = f.worth(m.worth) * (0.5 + 0.5*random.Float64())
				pool = append(pool, f)
			}
			m.buy(pool)
		}
		if m.changes < 2*anew {
			t.Fatalf("seed %d: only %d exchanges", seed, m.changes)
		}
		held := make([]float64, kinds)
		for j, row := range m.inverse {
			for i := range m.basis {
				sum := 0.0
				for _, l := range m.basis[i].Loads {
					sum += row[l.Demand] * float64(l.Count)
				}
				if want := map[bool]float64{true: 1}[i == j]; math.Abs(sum-want) > 1e-6 {
					t.Fatalf("seed %d: after %d exchanges the inverse times the basis is %g at %d, %d", seed, m.changes, sum, j, i)
				}
			}
			for _, l := range m.basis[j].Loads {
				held[l.Demand] += m.basis[j].Machines * float64(l.Count)
			}
		}
		for i, n := range counts {
			if math.Abs(held[i]-float64(n)) > 1e-6*float64(n) {
				t.Errorf("seed %d: machines hold %g of %d pods", seed, held[i], n)
			}
		}
	}
}

// With or without the table, the search finds the filling that is worth most, and an upper bound that no filling exceeds.
func TestLawTheSearchFindsTheBestFilling(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 27))
		p := Problem{Devices: []bool{false, false, true}}
		for range 6 {
			p.Demands = append(p.Demands, Demand{0, capacity.Vector{500 + random.Int64N(9000), 500 + random.Int64N(9000), random.Int64N(3)}, 1 + random.IntN(6), max(0, random.IntN(7)-3)})
		}
		p.Supplies = []Supply{{capacity.Vector{20_000 + random.Int64N(9000), 20_000 + random.Int64N(9000), random.Int64N(5)}, 4 + 8*random.Float64(), users(1, 0), nil}}
		worth := make([]float64, len(p.Demands))
		for i := range worth {
			worth[i] = 1 + 3*random.Float64()
		}
		if random.IntN(2) == 0 {
			p.Supplies[0].Leads = users(len(p.Demands), random.IntN(len(p.Demands)))
		}
		b := Of(&p)
		g := &generation{b: b, effort: 1 << 30, dims: slices.Concat(b.dims, b.devices)}
		for i := range p.Demands {
			g.of, g.left = append(g.of, i), append(g.left, p.Demands[i].Count)
		}
		want := mostWorth(&p, worth, 0, p.Supplies[0].Allocatable.Clone(), 0, false)
		for _, tabulated := range []bool{false, true} {
			k := g.newKnapsack(&b.supplies[0], worth, math.MaxInt)
			if len(k.items) == 0 {
				continue
			}
			if k.tabulate(g); !tabulated {
				if most := k.table.atMost(k, 0); most < want*(1-1e-9) {
					t.Errorf("seed %d: the table says %g at most, and %g fits", seed, most, want)
				}
				k.table = nil
			}
			k.search()
			price := p.Supplies[0].Price
			if want > price && math.Abs(k.best-want) > want*1e-9 || k.best > max(want, price)*(1+1e-9) || k.most < min(want, k.best) {
				t.Errorf("seed %d, table %t: found %g and %g at most, for %g; the best is worth %g", seed, tabulated, k.best, k.most, price, want)
			}
			if want > price {
				found++
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d of 600 searches had anything to find", found)
	}
}

// The search for fillings ends as soon as Stop returns true, and its result is still a bound.
func TestASearchForFillingsThatNobodyWaitsForEnds(t *testing.T) {
	t.Parallel()
	p := Problem{Devices: make([]bool, 2), Supplies: []Supply{{capacity.Vector{97, 89}, 1, users(1, 0), nil}}}
	for i := range int64(12) {
		p.Demands = append(p.Demands, Demand{0, capacity.Vector{7 + 3*i, 40 - 3*i}, 10, 0})
	}
	all := Of(&p).Fillings(1_000_000)
	asked := 0
	p.Stop = func() bool {
		asked++
		return asked == 3
	}
	if f := Of(&p).Fillings(1_000_000); asked != 3 || f.Value > all.Value || f.Value < all.Value/2 {
		t.Errorf("asked %d times, and at least %g instead of %g", asked, f.Value, all.Value)
	}
}
