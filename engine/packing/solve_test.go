package packing_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/topology"
)

// draw returns a small problem: up to 7 pods in up to 3 classes, up to 4 types, one pool.
func draw(seed uint64) *packing.Problem {
	r := rand.New(rand.NewPCG(seed, 3))
	p := &packing.Problem{Effort: 5000, PriceBand: 1.15, MaxTypes: 600, Unit: capacity.Vector{1000, 0}, Places: []topology.Place{{}}}
	pool := packing.Pool{Left: capacity.Vector{capacity.Most, capacity.Most}}
	for i := range 1 + r.IntN(4) {
		cpu, memory := int64(1+r.IntN(16))*1000, int64(1+r.IntN(32))
		size := capacity.Vector{cpu, memory}
		price := (0.03*float64(cpu)/1000 + 0.004*float64(memory)) * (0.8 + 0.4*r.Float64())
		pool.Options = append(pool.Options, packing.Option{Type: i, Price: price, Allocatable: size, Charge: size, Listed: true})
	}
	p.Pools = []packing.Pool{pool}
	left := 7
	for range 1 + r.IntN(3) {
		n := 1 + r.IntN(3)
		if n > left {
			break
		}
		left -= n
		c := packing.Class{Request: capacity.Vector{int64(1+r.IntN(40)) * 100, int64(1 + r.IntN(8))}, Count: n}
		c.Levels = []packing.Level{{Ways: &packing.Ways{Pools: [][]packing.Way{{{Options: bitset.Full(len(pool.Options))}}}}}}
		p.Classes = append(p.Classes, c)
	}
	return p
}

// optimum returns the least price for all pods that fit some option; it tries every partition of them.
func optimum(p *packing.Problem) float64 {
	var pods []capacity.Vector
	for _, c := range p.Classes {
		if holds(p, c.Request) < math.Inf(1) {
			for range c.Count {
				pods = append(pods, c.Request)
			}
		}
	}
	best := math.Inf(1)
	var groups []capacity.Vector
	var place func(i int)
	place = func(i int) {
		if i == len(pods) {
			sum := 0.0
			for _, g := range groups {
				sum += holds(p, g)
			}
			best = min(best, sum)
			return
		}
		for j := range groups {
			groups[j].Add(pods[i], 1)
			if holds(p, groups[j]) < math.Inf(1) {
				place(i + 1)
			}
			groups[j].Add(pods[i], -1)
		}
		groups = append(groups, pods[i].Clone())
		place(i + 1)
		groups = groups[:len(groups)-1]
	}
	place(0)
	return best
}

// holds returns the price of the cheapest option that holds v.
func holds(p *packing.Problem, v capacity.Vector) float64 {
	best := math.Inf(1)
	for _, o := range p.Pools[0].Options {
		if v.Fits(o.Allocatable) {
			best = min(best, o.Price)
		}
	}
	return best
}

// aroundDevices returns a problem with one pool of machines with the given cores and GPUs, and classes of pods: count, cores, GPUs.
func aroundDevices(machines [][2]int64, prices []float64, pods [][3]int) *packing.Problem {
	p := &packing.Problem{Effort: 50_000, PriceBand: 1.15, MaxTypes: 600, Unit: capacity.Vector{1, 0}, Devices: []bool{false, true}, Places: []topology.Place{{}}}
	pool := packing.Pool{Left: capacity.Vector{capacity.Most, capacity.Most}}
	for i, m := range machines {
		size := capacity.Vector{m[0], m[1]}
		pool.Options = append(pool.Options, packing.Option{Type: i, Price: prices[i], Allocatable: size, Charge: size, Listed: true})
	}
	p.Pools = []packing.Pool{pool}
	ways := &packing.Ways{Pools: [][]packing.Way{{{Options: bitset.Full(len(machines))}}}}
	for _, n := range pods {
		p.Classes = append(p.Classes, packing.Class{Count: n[0], Request: capacity.Vector{int64(n[1]), int64(n[2])}, Levels: []packing.Level{{Ways: ways}}})
	}
	return p
}

// A machine with a GPU that costs less than one without is bought only for pods that request a GPU. The machine without a GPU stays
// available to the other pods.
func TestCheapMachinesWithDevicesHideNoneWithout(t *testing.T) {
	t.Parallel()
	for pods, want := range map[int]float64{2: 10, 3: 13.9, 10: 30, 40: 105} {
		p := aroundDevices([][2]int64{{8, 1}, {8, 0}, {4, 0}}, []float64{4, 5, 3.9}, [][3]int{{pods, 4, 0}, {1, 6, 0}})
		s := packing.Solve(p)
		if got := price(p, s); got > want*(1+1e-4) || s.Bound > want*(1+1e-9) {
			t.Errorf("%d pods of 4 cores and one of 6 cost %g, the bound is %g, and %g is enough", pods, got, s.Bound, want)
		}
	}
}

func price(p *packing.Problem, s *packing.Solution) float64 {
	sum := 0.0
	for _, m := range s.New {
		sum += p.Pools[m.Pool].Options[m.Chosen].Price
	}
	return sum
}

// The price may be a ten-thousandth above the optimum, because the search prefers fewer machines. The bound proves the optimum.
func TestSmallProblemsAreSolvedAtTheLeastPrice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		p := draw(seed)
		s := packing.Solve(p)
		got, want := price(p, s), optimum(p)
		if got > want*(1+1e-4) {
			t.Errorf("seed %d: costs %.4f, the optimum is %.4f", seed, got, want)
		}
		if s.Bound > want*(1+1e-9) || s.Bound < want*(1-1e-3) {
			t.Errorf("seed %d: the bound %.4f does not prove the optimum %.4f", seed, s.Bound, want)
		}
	}
}

func TestEveryPodIsPlacedOnceAndFits(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		p := draw(seed)
		r := rand.New(rand.NewPCG(seed, 9))
		for range r.IntN(3) {
			p.Nodes = append(p.Nodes, packing.Node{Free: capacity.Vector{int64(r.IntN(5000)), int64(r.IntN(12)) - 1}})
		}
		for i := range p.Classes {
			p.Classes[i].Levels[0].Nodes = bitset.Full(len(p.Nodes))
		}
		if r.IntN(2) == 0 {
			p.Pools[0].Left = capacity.Vector{int64(r.IntN(20000)), capacity.Most}
		}
		if wrong := check(p, packing.Solve(p)); wrong != "" {
			t.Errorf("seed %d: %s", seed, wrong)
		}
	}
}

func check(p *packing.Problem, s *packing.Solution) string {
	left := make([]int, len(p.Classes))
	for i, c := range p.Classes {
		left[i] = c.Count - len(s.Left[i])
	}
	sum := func(shares []packing.Share) capacity.Vector {
		v := capacity.Vector{0, 0}
		for _, share := range shares {
			v.Add(p.Classes[share.Class].Request, int64(len(share.Pods)))
			left[share.Class] -= len(share.Pods)
		}
		return v
	}
	for i, shares := range s.OnNodes {
		if v := sum(shares); !v.Fits(p.Nodes[i].Free) {
			return fmt.Sprintf("node %d holds %v of %v", i, v, p.Nodes[i].Free)
		}
	}
	limit := p.Pools[0].Left.Clone()
	for i, m := range s.New {
		v := sum(m.Pods)
		most := capacity.Vector{0, 0}
		for _, o := range m.Listed {
			if !v.Fits(p.Pools[0].Options[o].Allocatable) {
				return fmt.Sprintf("machine %d lists option %d, which does not hold %v", i, o, v)
			}
			most.Max(p.Pools[0].Options[o].Charge)
		}
		limit.Add(most, -1)
	}
	if limit[0] < 0 && len(s.New) > 0 {
		return fmt.Sprintf("the limit is exceeded by %d", -limit[0])
	}
	for i, n := range left {
		if n != 0 {
			return fmt.Sprintf("class %d: %d pods too few or too many", i, n)
		}
	}
	return ""
}

func TestTheSameProblemHasTheSameSolution(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		if a, b := packing.Solve(draw(seed)), packing.Solve(draw(seed)); !reflect.DeepEqual(a, b) {
			t.Errorf("seed %d: %+v, then %+v", seed, a, b)
		}
	}
}

func TestPricesTimesTwoChangeOnlyPrices(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		p, q := draw(seed), draw(seed)
		for i := range q.Pools[0].Options {
			q.Pools[0].Options[i].Price *= 4
		}
		a, b := packing.Solve(p), packing.Solve(q)
		if !reflect.DeepEqual(a.New, b.New) || a.Bound*4 != b.Bound {
			t.Errorf("seed %d: %+v, with prices times four %+v", seed, a, b)
		}
	}
}

func TestHeavierPoolsComeFirstWhateverTheirPrice(t *testing.T) {
	t.Parallel()
	p := draw(1)
	cheap, dear := p.Pools[0], p.Pools[0]
	dear.Weight = 10
	dear.Options = append([]packing.Option(nil), cheap.Options...)
	for i := range dear.Options {
		dear.Options[i].Price *= 3
	}
	p.Pools = []packing.Pool{cheap, dear}
	for i := range p.Classes {
		ways := p.Classes[i].Levels[0].Ways
		ways.Pools = append(ways.Pools, ways.Pools[0])
	}
	for _, m := range packing.Solve(p).New {
		if m.Pool != 1 {
			t.Errorf("a machine is bought from the lighter pool")
		}
	}
}

func TestFreeKeysKeepPodsApart(t *testing.T) {
	t.Parallel()
	size := capacity.Vector{8000, 32}
	only := func(b int) []bitset.Set { return []bitset.Set{bitset.Of(4, b)} }
	p := &packing.Problem{Effort: 1000, PriceBand: 1.15, MaxTypes: 600, Places: []topology.Place{{}}}
	p.Pools = []packing.Pool{{
		Options: []packing.Option{{Price: 1, Allocatable: size, Charge: size, Listed: true}},
		Free:    []bitset.Set{bitset.Of(4, 1, 2)},
		Left:    capacity.Vector{capacity.Most, capacity.Most},
	}}
	for b := 1; b <= 2; b++ {
		p.Classes = append(p.Classes, packing.Class{
			Request: capacity.Vector{1000, 1}, Count: 2,
			Levels: []packing.Level{{Ways: &packing.Ways{Pools: [][]packing.Way{{{Options: bitset.Full(1), Free: only(b)}}}}}},
		})
	}
	s := packing.Solve(p)
	if len(s.New) != 2 {
		t.Fatalf("pods that ask for different values of a label share a machine: %+v", s.New)
	}
}

// No machine has pods of two batches. Every pod that has a place without batches also has one with batches.
func TestNoMachineHasPodsOfTwoBatches(t *testing.T) {
	t.Parallel()
	apart := 0
	for seed := range uint64(400) {
		p := draw(seed)
		together := placed(packing.Solve(p))
		for c := range p.Classes {
			p.Classes[c].Batch = c % 2
		}
		s := packing.Solve(p)
		for _, m := range s.New {
			for _, share := range m.Pods {
				if p.Classes[share.Class].Batch != p.Classes[m.Pods[0].Class].Batch {
					t.Errorf("seed %d: a machine has pods of two batches: %+v", seed, m.Pods)
				}
			}
		}
		if n := placed(s); n != together {
			t.Errorf("seed %d: %d pods have a place, %d without batches", seed, n, together)
		}
		if len(s.New) > 1 {
			apart++
		}
	}
	if apart < 50 {
		t.Errorf("only %d of 400 problems need more than one machine", apart)
	}
}

func placed(s *packing.Solution) int {
	n := 0
	for _, m := range s.New {
		for _, share := range m.Pods {
			n += len(share.Pods)
		}
	}
	return n
}
