package bound

import (
	"math"
	"math/rand/v2"
	"testing"

	"tenon.sh/engine/capacity"
)

// Machines of four hold one pod of three, and nothing beside it: by resources a quarter of each is there for others.
func TestFillingsPayForWhatNoPodFitsInto(t *testing.T) {
	t.Parallel()
	p := &Problem{
		Demands:  []Demand{{0, capacity.Vector{3, 1}, 10}, {0, capacity.Vector{2, 1}, 2}},
		Supplies: []Supply{{capacity.Vector{4, 8}, 1, users(1, 0), nil}, {capacity.Vector{4, 16}, 2, users(1, 0), nil}},
		Devices:  make([]bool, 2),
	}
	b := Of(p)
	if got := b.Fillings(1000).Value; b.Value > 8.6 || math.Abs(got-11) > 1e-6 {
		t.Errorf("by resources %g, by fillings %g; want 8.5 and 11", b.Value, got)
	}
}

// However much effort goes into it, fillings bound every packing from below, and are worth no more than they cost at the prices.
func TestLawNoPackingIsCheaperThanItsFillings(t *testing.T) {
	t.Parallel()
	better, tight := 0, 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 26))
		p := drawProblem(random)
		b, best := Of(&p), cheapest(&p)
		for _, effort := range []int{1, 10, 10_000} {
			f := b.Fillings(effort)
			if f.Value > best*(1+1e-9) {
				t.Errorf("seed %d: with effort %d fillings cost %g at least, and %g is enough", seed, effort, f.Value, best)
			}
			for i := range p.Supplies {
				if worth := mostWorth(&p, f.Worth, 0, p.Supplies[i].Allocatable.Clone(), i); worth > p.Supplies[i].Price*(1+1e-9) {
					t.Errorf("seed %d: with effort %d a machine of %g is worth %g", seed, effort, p.Supplies[i].Price, worth)
				}
			}
			if effort == 10_000 && f.Value > b.Value*1.01 {
				better++
			}
			if effort == 10_000 && f.Value > best*0.9 {
				tight++
			}
		}
	}
	if better < 60 || tight < 250 {
		t.Errorf("of 300 bounds %d are better by fillings, %d within a tenth of the cheapest packing: that is too few", better, tight)
	}
}

// mostWorth is what pods of the demands from the i-th on are worth together at most, in a room of the supply.
func mostWorth(p *Problem, worth []float64, i int, room capacity.Vector, supply int) float64 {
	if i == len(p.Demands) {
		return 0
	}
	d := &p.Demands[i]
	most := mostWorth(p, worth, i+1, room, supply)
	if !p.Supplies[supply].Users.Has(d.User) {
		return most
	}
	for n := 1; n <= d.Request.Times(room, d.Count); n++ {
		left := room.Clone()
		left.Add(d.Request, -int64(n))
		most = max(most, float64(n)*worth[i]+mostWorth(p, worth, i+1, left, supply))
	}
	return most
}
