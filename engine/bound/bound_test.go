package bound

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

func users(all int, list ...int) bitset.Set {
	s := bitset.New(all)
	for _, i := range list {
		s.Add(i)
	}
	return s
}

func TestPodsThatFillMachinesAreBoundedByWhatTheseCost(t *testing.T) {
	t.Parallel()
	small, large := Supply{capacity.Vector{2, 8}, 1, users(3, 0, 1), nil}, Supply{capacity.Vector{8, 32}, 3, users(3, 0), nil}
	for _, c := range []struct {
		name    string
		demands []Demand
		least   int // machines
		want    float64
	}{
		{"the cheapest cpu", []Demand{{0, capacity.Vector{1, 1}, 8, 0}}, 0, 3},
		{"who may not use it pays more", []Demand{{1, capacity.Vector{1, 1}, 8, 0}}, 0, 4},
		{"together they share machines", []Demand{{0, capacity.Vector{1, 1}, 8, 0}, {1, capacity.Vector{0, 1}, 1, 0}}, 0, 3},
		{"so many machines there are at least", []Demand{{0, capacity.Vector{1, 1}, 1, 0}}, 4, 4},
		{"whom no machine takes costs nothing", []Demand{{0, capacity.Vector{1, 1}, 8, 0}, {2, capacity.Vector{1, 1}, 8, 0}}, 0, 3},
		{"nothing is asked for", nil, 0, 0},
	} {
		b := Of(&Problem{Demands: c.demands, Supplies: []Supply{small, large}, Devices: make([]bool, 2), Machines: c.least})
		if math.Abs(b.Value-c.want) > 0.13*c.want { // up to 1/8 more, for memory
			t.Errorf("%s: %g, want about %g", c.name, b.Value, c.want)
		}
	}
}

// No packing of the pods costs less than the bound, and at its prices no machine is worth more than it costs.
func TestLawNoPackingIsCheaperThanTheBound(t *testing.T) {
	t.Parallel()
	tight := 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 25))
		p := drawProblem(random)
		b, best := Of(&p), cheapest(&p)
		if b.Value > best*(1+1e-9) {
			t.Errorf("seed %d: the bound is %g, and %g is enough", seed, b.Value, best)
		}
		for i := range b.supplies {
			o := &b.supplies[i]
			if worth := WorthOf(o.size, b.u[o.block]) + WorthOf(o.size, b.device[i]) + b.add; worth > o.Price*(1+1e-9) {
				t.Errorf("seed %d: a machine of %g is worth %g", seed, o.Price, worth)
			}
		}
		if b.Value > 0.6*best {
			tight++
		}
	}
	if tight < 150 {
		t.Errorf("only %d of 300 bounds are above 60%% of the cheapest packing: that says nothing", tight)
	}
}

// cheapest returns the price of the cheapest packing. It tries all packings.
func cheapest(p *Problem) float64 {
	var pods []int
	for i, d := range p.Demands {
		pods = append(pods, slices.Repeat([]int{i}, d.Count)...)
	}
	type machine struct {
		of   *Supply
		left capacity.Vector
		led  int
		has  []int // pods of each demand
	}
	best := math.Inf(1)
	var open []machine
	for _, e := range p.Existing {
		for range e.Count {
			open = append(open, machine{&Supply{Users: e.Users}, e.Room.Clone(), 1, make([]int, len(p.Demands))})
		}
	}
	var try func(pod int, cost float64)
	try = func(pod int, cost float64) {
		if cost >= best {
			return
		}
		if pod == len(pods) {
			if !slices.ContainsFunc(open, func(m machine) bool { return m.led == 0 }) {
				best = cost
			}
			return
		}
		d := &p.Demands[pods[pod]]
		leads := func(s *Supply) int {
			if l := s.Leads; l == nil || l.Has(pods[pod]) {
				return 1
			}
			return 0
		}
		for i := range open {
			if open[i].of.Users.Has(d.User) && d.Request.Fits(open[i].left) && (d.Most == 0 || open[i].has[pods[pod]] < d.Most) {
				lead := leads(open[i].of)
				open[i].left.Add(d.Request, -1)
				open[i].led += lead
				open[i].has[pods[pod]]++
				try(pod+1, cost)
				open[i].left.Add(d.Request, 1)
				open[i].led -= lead
				open[i].has[pods[pod]]--
			}
		}
		for i := range p.Supplies {
			if s := &p.Supplies[i]; s.Users.Has(d.User) && d.Request.Fits(s.Allocatable) {
				left := s.Allocatable.Clone()
				left.Add(d.Request, -1)
				has := make([]int, len(p.Demands))
				has[pods[pod]] = 1
				open = append(open, machine{s, left, leads(s), has})
				try(pod+1, cost+s.Price)
				open = open[:len(open)-1]
			}
		}
	}
	try(0, 0)
	return best
}

// drawProblem returns a few pods of up to three kinds and supplies for them, so few that cheapest can try every packing.
func drawProblem(random *rand.Rand) Problem {
	p := Problem{Devices: []bool{false, false, random.IntN(3) == 0}}
	for range 1 + random.IntN(4) {
		u := users(2)
		for i := range 2 {
			if random.IntN(3) > 0 {
				u.Add(i)
			}
		}
		p.Supplies = append(p.Supplies, Supply{capacity.Vector{2 + random.Int64N(6), 2 + random.Int64N(6), random.Int64N(3)}, 1 + float64(random.IntN(8)), u, nil})
	}
	p.Supplies = append(p.Supplies, Supply{capacity.Vector{8, 8, 2}, 9, users(2, 0, 1), nil})
	for range 1 + random.IntN(3) {
		p.Demands = append(p.Demands, Demand{random.IntN(2), capacity.Vector{1 + random.Int64N(3), 1 + random.Int64N(3), random.Int64N(2)}, 1 + random.IntN(2), random.IntN(2)})
	}
	return p
}

// If pods share no machines, not even by way of other pods, their bounds can be added.
func TestLawPartsAddUp(t *testing.T) {
	t.Parallel()
	several := 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 32))
		one, two := drawProblem(random), drawProblem(random)
		all := Problem{Devices: []bool{false, false, true}, Demands: one.Demands, Supplies: one.Supplies}
		for _, d := range two.Demands {
			d.User += 2
			all.Demands = append(all.Demands, d)
		}
		for _, s := range two.Supplies {
			u := users(4)
			for i := range 2 {
				if s.Users.Has(i) {
					u.Add(i + 2)
				}
			}
			s.Users = u
			all.Supplies = append(all.Supplies, s)
		}
		b := Of(&all)
		value, kinds, whole, best := 0.0, 0, 0.0, cheapest(&one)+cheapest(&two)
		for _, part := range b.Parts() {
			value += part.Value
			kinds += part.Kinds()
			whole += part.Fillings(10_000).Value
		}
		if math.Abs(value-b.Value) > 1e-9*b.Value || kinds != len(all.Demands) {
			t.Errorf("seed %d: parts cost %g and have %d demands, all together %g and %d", seed, value, kinds, b.Value, len(all.Demands))
		}
		if whole > best*(1+1e-9) || whole < value*(1-1e-9) {
			t.Errorf("seed %d: by fillings parts cost %g, by resources %g, and %g is enough", seed, whole, value, best)
		}
		if len(b.Parts()) > 1 {
			several++
		}
	}
	if several < 290 {
		t.Errorf("only %d of 300 problems have several parts", several)
	}
}

// A supply for pods of two parts makes them one.
func TestPartsThatShareASupplyAreOne(t *testing.T) {
	t.Parallel()
	size := capacity.Vector{4, 8}
	p := Problem{Devices: make([]bool, 2)}
	for user := range 3 {
		p.Demands = append(p.Demands, Demand{user, capacity.Vector{1, 1}, 5, 0})
		p.Supplies = append(p.Supplies, Supply{size, 1, users(3, user), nil})
	}
	kinds := func() (out []int) {
		for _, part := range Of(&p).Parts() {
			out = append(out, part.Kinds())
		}
		return out
	}
	if got := kinds(); !slices.Equal(got, []int{1, 1, 1}) {
		t.Errorf("parts of %v demands, want three of one", got)
	}
	p.Supplies = append(p.Supplies, Supply{size, 2, users(3, 0, 2), nil})
	if got := kinds(); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("parts of %v demands, want one of one and one of two", got)
	}
}
