package consolidation

import (
	"math/rand/v2"
	"slices"
	"testing"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// draw makes machines of 8 units of two resources that are half full, classes that some machines do not admit, and options.
func draw(r *rand.Rand) *Problem {
	p := &Problem{Worth: []float64{0.01, 0.01}, Horizon: 4, Floor: 0.001, Share: 0.01, Strict: 3, Effort: 5000}
	machines, classes, options := 2+r.IntN(12), 1+r.IntN(5), 1+r.IntN(4)
	for range options {
		size := int64(1 + r.IntN(16))
		p.Options = append(p.Options, Option{Price: float64(size) * (0.02 + 0.01*r.Float64()), Allocatable: capacity.Vector{size, size}})
	}
	for i := range classes {
		c := Class{Request: capacity.Vector{int64(1 + r.IntN(3)), int64(r.IntN(3))}, Where: bitset.Full(machines), Options: bitset.Full(options), Kind: -1}
		if r.IntN(3) == 0 {
			c.Kind, c.Most = i, 1+r.IntN(2)
		}
		for m := range machines {
			if r.IntN(4) == 0 {
				c.Where.Remove(m)
			}
		}
		p.Classes = append(p.Classes, c)
	}
	p.Caps = []int{1 + r.IntN(machines)}
	for range machines {
		m := Machine{Free: capacity.Vector{8, 8}, Takes: r.IntN(5) > 0, Goes: r.IntN(5) > 0, Price: 0.2 + 0.1*r.Float64(), Uses: []Lot{{0, 1}}}
		kinds := map[int]int{}
		for i, c := range p.Classes {
			n := min(r.IntN(3), c.Request.Times(m.Free, 8))
			if c.Kind >= 0 {
				n = min(n, c.Most)
			}
			if n == 0 {
				continue
			}
			m.Free.Add(c.Request, -int64(n))
			m.Pods = append(m.Pods, Lot{i, n})
			m.Cost += 0.05 * float64(n) * r.Float64()
			if c.Kind >= 0 {
				kinds[c.Kind] += n
			}
		}
		for kind := range p.Classes {
			if kinds[kind] > 0 {
				m.Kinds = append(m.Kinds, Lot{kind, kinds[kind]})
			}
		}
		p.Machines = append(p.Machines, m)
	}
	return p
}

// The search proposes only moves that are possible, stay within the caps and pay: machines that stay have room for the pods put there and
// admit them, and the price that goes exceeds the price of the new machines and the cost of the moves.
func TestWhatIsProposedFitsAndPays(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range uint64(3000) {
		p := draw(rand.New(rand.NewPCG(seed, 1)))
		r := Search(p)
		gone := map[int]bool{}
		price, cost := 0.0, 0.0
		for _, j := range r.Gone {
			if !p.Machines[j].Goes || gone[j] {
				t.Errorf("seed %d: machine %d goes", seed, j)
			}
			gone[j] = true
			price, cost = price+p.Machines[j].Price, cost+p.Machines[j].Cost
		}
		found += len(gone)
		if now := len(gone) - len(r.Later); now > p.Caps[0] || len(r.Later) > 0 && now == 0 {
			t.Errorf("seed %d: %d machines go now and %d later, the cap is %d", seed, now, len(r.Later), p.Caps[0])
		}
		if len(gone) > 0 && p.Horizon*(price-r.Paid)-cost <= 0 {
			t.Errorf("seed %d: %v goes, %v comes, moving costs %v", seed, price, r.Paid, cost)
		}
		moved := map[[2]int]int{}
		free, kinds := map[int]capacity.Vector{}, map[[2]int]int{}
		for i, m := range p.Machines {
			free[i] = m.Free.Clone()
			for _, k := range m.Kinds {
				kinds[[2]int{i, k.Of}] = k.N
			}
		}
		for _, x := range r.Placed {
			c := p.Classes[x.Class]
			moved[[2]int{x.From, x.Class}] += x.N
			free[x.To].Add(c.Request, -int64(x.N))
			if gone[x.To] || !gone[x.From] || !p.Machines[x.To].Takes || !c.Where.Has(x.To) {
				t.Errorf("seed %d: %+v", seed, x)
			}
			if c.Kind >= 0 {
				if kinds[[2]int{x.To, c.Kind}] += x.N; kinds[[2]int{x.To, c.Kind}] > c.Most {
					t.Errorf("seed %d: machine %d has %d of kind %d", seed, x.To, kinds[[2]int{x.To, c.Kind}], c.Kind)
				}
			}
		}
		for i := range free {
			if min(free[i][0], free[i][1]) < 0 {
				t.Errorf("seed %d: machine %d is %v short", seed, i, free[i])
			}
		}
		for key, n := range moved {
			have := 0
			for _, lot := range p.Machines[key[0]].Pods {
				if lot.Of == key[1] {
					have = lot.N
				}
			}
			if n > have || r.Paid == 0 && n != have {
				t.Errorf("seed %d: %d of %d pods of class %d move from machine %d", seed, n, have, key[1], key[0])
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d machines went in all problems", found)
	}
}

// Once the proposal is carried out, no further removal pays. Otherwise machines would be removed one after another for ever.
func TestASearchLeavesNothingToDo(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		p := draw(rand.New(rand.NewPCG(seed, 2)))
		p.Caps, p.Options = []int{len(p.Machines)}, nil // nothing can be bought: the next state is then known
		r := Search(p)
		next := *p
		next.Machines = append([]Machine(nil), p.Machines...)
		for _, j := range r.Gone {
			next.Machines[j].Takes, next.Machines[j].Goes, next.Machines[j].Pods = false, false, nil
		}
		for _, x := range r.Placed {
			m := &next.Machines[x.To]
			m.Free = m.Free.Clone()
			m.Free.Add(p.Classes[x.Class].Request, -int64(x.N))
			m.Goes = false // its new pods would have to move again
			if c := p.Classes[x.Class]; c.Kind >= 0 {
				m.Kinds = append([]Lot(nil), m.Kinds...)
				if k := slices.IndexFunc(m.Kinds, func(l Lot) bool { return l.Of == c.Kind }); k >= 0 {
					m.Kinds[k].N += x.N
				} else {
					m.Kinds = append(m.Kinds, Lot{c.Kind, x.N})
				}
			}
		}
		if again := Search(&next); len(again.Gone) > 0 {
			t.Errorf("seed %d: %v go in the second search, %v in the first", seed, again.Gone, r.Gone)
		}
	}
}

// Machines are replaced only if the new ones cost less by a hundredth, by the floor, and by several times the cost of the moves, because
// pods should not move for little.
func TestAReplacementPaysForMovingSeveralTimesOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		machines int     // each at 1 USD per hour, with one pod
		bought   float64 // USD per hour of the one machine that holds all their pods
		cost     float64 // USD of moving the pod of one
		floor    float64
		want     bool
	}{
		{"more than a hundredth less", 1, 0.98, 0, 0, true},
		{"less than a hundredth less", 1, 0.995, 0, 0, false},
		{"more than the floor less", 1, 0.94, 0, 0.05, true},
		{"less than the floor less", 1, 0.96, 0, 0.05, false},
		{"in 4 hours more than 3 times the cost of moving", 1, 0.79, 0.26, 0, true}, // 4 * (1 - 0.01 - 0.79) = 0.80, 3 * 0.26 = 0.78
		{"in 4 hours less than 3 times the cost of moving", 1, 0.79, 0.28, 0, false},
		{"one for two, more than 3 times the cost of moving both", 2, 1.58, 0.26, 0, true},
		{"one for two, less than 3 times the cost of moving both", 2, 1.58, 0.28, 0, false},
		{"one for two, less than a hundredth of both prices less", 2, 1.985, 0, 0, false},
	} {
		p := &Problem{Worth: []float64{0.01}, Horizon: 4, Floor: c.floor, Share: 0.01, Strict: 3, Effort: 5000,
			Options: []Option{{Price: c.bought, Allocatable: capacity.Vector{int64(8 * c.machines)}}},
			Classes: []Class{{Request: capacity.Vector{8}, Where: bitset.Full(c.machines), Options: bitset.Full(1), Kind: -1}}}
		for range c.machines {
			p.Machines = append(p.Machines, Machine{Free: capacity.Vector{0}, Takes: true, Goes: true, Price: 1, Cost: c.cost, Pods: []Lot{{0, 1}}})
		}
		if r := Search(p); (len(r.Gone) == c.machines) != c.want {
			t.Errorf("%s: machines %v go for %v USD per hour", c.name, r.Gone, r.Paid)
		}
	}
}
