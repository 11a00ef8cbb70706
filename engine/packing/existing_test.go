package packing_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/bound"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/topology"
)

// withNodes returns a problem with pods without rules, nodes that admit them all, and machines of three shapes in five sizes: two, four and
// eight of memory for each core.
func withNodes(pods []packing.Class, rooms ...capacity.Vector) *packing.Problem {
	p := &packing.Problem{Effort: 5000, PriceBand: 1.15, MaxTypes: 600, Unit: capacity.Vector{1000, 0}, Places: []topology.Place{{}}, Classes: pods}
	pool := packing.Pool{Left: capacity.Vector{capacity.Most, capacity.Most}}
	for i, each := range []int64{2, 4, 8} {
		for _, cores := range []int64{2, 4, 8, 16, 32} {
			size := capacity.Vector{1000 * cores, 1000 * each * cores}
			price := float64(cores) * (0.034 + 0.008*float64(i))
			pool.Options = append(pool.Options, packing.Option{Type: len(pool.Options), Price: price, Allocatable: size, Charge: size, Listed: true})
		}
	}
	p.Pools = []packing.Pool{pool}
	for _, room := range rooms {
		p.Nodes = append(p.Nodes, packing.Node{Free: room})
	}
	ways := &packing.Ways{Pools: [][]packing.Way{{{Options: bitset.Full(len(pool.Options))}}}}
	for i := range p.Classes {
		p.Classes[i].Levels = []packing.Level{{Nodes: bitset.Full(len(rooms)), Ways: ways}}
	}
	return p
}

func priceOf(p *packing.Problem, sol *packing.Solution) float64 {
	sum := 0.0
	for _, m := range sol.New {
		sum += p.Pools[m.Pool].Options[m.Chosen].Price
	}
	return sum
}

// The largest pod would take all memory of the node and leave three of its cores unused. Machines for the pods that need these cores cost
// more.
func TestNodesGoToThePodsThatWouldCostMost(t *testing.T) {
	t.Parallel()
	p := withNodes([]packing.Class{{Request: capacity.Vector{2000, 2000}, Count: 2}, {Request: capacity.Vector{1000, 4000}, Count: 1}}, capacity.Vector{4000, 4000})
	sol := packing.Solve(p)
	if fault := check(p, sol); fault != "" {
		t.Error(fault)
	}
	if price := priceOf(p, sol); math.Abs(price-0.068) > 1e-9 {
		t.Errorf("the machines cost %g; one of two cores for the pod with most memory costs 0.068", price)
	}
}

// The pods that get the room on nodes are chosen together with the machines that are bought.
func TestPlansWithNodesAreNearTheirBound(t *testing.T) {
	t.Parallel()
	price, least := 0.0, 0.0
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 17))
		var pods []packing.Class
		var rooms []capacity.Vector
		for range 2 + r.IntN(7) {
			pods = append(pods, packing.Class{Request: capacity.Vector{200 + 100*r.Int64N(40), 250 + 250*r.Int64N(40)}, Count: 1 + r.IntN(30)})
		}
		for range 5 + r.IntN(36) {
			rooms = append(rooms, capacity.Vector{200 + 100*r.Int64N(60), 250 + 125*r.Int64N(150)})
		}
		p := withNodes(pods, rooms...)
		sol := packing.Solve(p)
		if fault := check(p, sol); fault != "" {
			t.Errorf("seed %d: %s", seed, fault)
		}
		b := bound.Problem{Devices: make([]bool, 2)}
		for _, c := range p.Classes {
			b.Demands = append(b.Demands, bound.Demand{Request: c.Request, Count: c.Count})
		}
		for _, o := range p.Pools[0].Options {
			b.Supplies = append(b.Supplies, bound.Supply{Allocatable: o.Allocatable, Price: o.Price, Users: bitset.Of(1, 0)})
		}
		for _, n := range p.Nodes {
			b.Existing = append(b.Existing, bound.Existing{Room: n.Free, Users: bitset.Of(1, 0), Count: 1})
		}
		f := bound.Of(&b).Fillings(1_000_000)
		if have := priceOf(p, sol); have < f.Value*(1-1e-9) {
			t.Errorf("seed %d: the machines cost %g, and %g at least", seed, have, f.Value)
		} else {
			price += have
		}
		least += f.Value
	}
	if price > 1.02*least {
		t.Errorf("machines beside nodes cost %.3f; at least %.3f, %.1f %% less", price, least, 100-100*least/price)
	}
}

// If Stop returns true, the search for cheaper machines ends, and the result so far is still correct.
func TestASearchThatNobodyWaitsForEnds(t *testing.T) {
	t.Parallel()
	var pods []packing.Class
	r := rand.New(rand.NewPCG(1, 19))
	for range 40 {
		pods = append(pods, packing.Class{Request: capacity.Vector{5000 + 100*r.Int64N(60), 9000 + 250*r.Int64N(60)}, Count: 1 + r.IntN(20)})
	}
	work := func(effort int, stop func() bool) int64 {
		p := withNodes(slices.Clone(pods), capacity.Vector{9000, 20_000})
		p.Effort, p.Stop, p.Work = effort, stop, new(atomic.Int64)
		if fault := check(p, packing.Solve(p)); fault != "" {
			t.Error(fault)
		}
		return p.Work.Load()
	}
	all, first := work(150_000, nil), work(0, nil)
	if some := work(150_000, func() bool { return true }); some > first {
		t.Errorf("without a search it takes %d units, with one %d, and with one that nobody waits for %d", first, all, some)
	}
}

// The saving of the program does not justify that pods of higher priority wait for a machine: kube-scheduler gives them the room anyway.
func TestRoomOnNodesGoesByPriority(t *testing.T) {
	t.Parallel()
	p := withNodes([]packing.Class{{Request: capacity.Vector{2000, 2000}, Count: 2}, {Request: capacity.Vector{1000, 4000}, Count: 1, Priority: 1000}}, capacity.Vector{4000, 4000})
	sol := packing.Solve(p)
	if fault := check(p, sol); fault != "" {
		t.Error(fault)
	}
	if on := sol.OnNodes[0]; len(on) != 1 || on[0].Class != 1 {
		t.Errorf("the node has %v, not the pod of the highest priority", on)
	}
}

// Without the program, the pod of the second class goes to the second node, and the first node gets no pod. With it, this pod goes to the
// first node, because a pod of the first class fits only the second.
func TestNodesWithoutPodsArePartOfTheProgram(t *testing.T) {
	t.Parallel()
	p := withNodes([]packing.Class{{Request: capacity.Vector{1000, 7000}, Count: 2}, {Request: capacity.Vector{2000, 5000}, Count: 1}}, capacity.Vector{3000, 6000}, capacity.Vector{2000, 7000})
	sol := packing.Solve(p)
	if fault := check(p, sol); fault != "" {
		t.Error(fault)
	}
	if price := priceOf(p, sol); price > 0.0840001 {
		t.Errorf("the machines cost %g; 0.084 is enough", price)
	}
}
