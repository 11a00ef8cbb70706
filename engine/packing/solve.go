package packing

import (
	"cmp"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
)

// Solve places as many pods as it can: first on nodes that exist, then, from the heaviest pools to the lightest, on new
// machines, cheaply. The same problem always has the same solution.
func Solve(p *Problem) *Solution {
	s := newSolver(p)
	s.fillNodes()
	for _, tier := range s.tiers() {
		s.buy(tier)
	}
	return s.finish()
}

// solver is the state of one Solve.
type solver struct {
	p      *Problem
	left   []int // pods of each class that have no place yet
	room   []capacity.Vector
	placed [][]Share
	pools  []shop
	drafts []*draft
	bound  float64
	effort int
}

// shop is a pool with what the search needs to know of it.
type shop struct {
	*Pool
	byPrice []int // listed options, cheapest first
	left    capacity.Vector
	limited bool
}

// draft is a new machine whose option is still open: the cheapest that holds its pods.
type draft struct {
	pool   int
	sum    capacity.Vector
	ways   bitset.Set // options that every pod on it may use, room aside
	free   []bitset.Set
	pods   []Share
	option int
	price  float64 // what the option costs
}

func newSolver(p *Problem) *solver {
	s := &solver{p: p, effort: p.Effort, placed: make([][]Share, len(p.Nodes))}
	for _, c := range p.Classes {
		s.left = append(s.left, c.Count)
	}
	for _, n := range p.Nodes {
		s.room = append(s.room, n.Free.Clone())
	}
	for i := range p.Pools {
		s.pools = append(s.pools, newShop(&p.Pools[i]))
	}
	return s
}

func newShop(p *Pool) shop {
	sh := shop{Pool: p, left: p.Left.Clone()}
	for i := range p.Options {
		if p.Options[i].Listed {
			sh.byPrice = append(sh.byPrice, i)
		}
	}
	slices.SortStableFunc(sh.byPrice, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.Options[a].Price, p.Options[b].Price), cmp.Compare(a, b))
	})
	for _, n := range sh.left {
		sh.limited = sh.limited || n < capacity.Most
	}
	return sh
}

// tiers groups the pools by weight, heaviest first.
func (s *solver) tiers() [][]int {
	weights := map[int][]int{}
	var order []int
	for i, p := range s.p.Pools {
		if _, ok := weights[p.Weight]; !ok {
			order = append(order, p.Weight)
		}
		weights[p.Weight] = append(weights[p.Weight], i)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(b, a) })
	tiers := make([][]int, 0, len(order))
	for _, w := range order {
		tiers = append(tiers, weights[w])
	}
	return tiers
}

// fillNodes places pods on existing nodes, the largest first, each on the node that it leaves the least room on.
func (s *solver) fillNodes() {
	if len(s.p.Nodes) == 0 {
		return
	}
	scale := s.typical()
	size := func(v capacity.Vector) float64 {
		sum := 0.0
		for d := range v {
			sum += float64(float64(max(0, v[d])) / scale[d])
		}
		return sum
	}
	order := make([]int, len(s.p.Classes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(size(s.p.Classes[b].Request), size(s.p.Classes[a].Request))
	})
	for _, c := range order {
		s.fillClass(c, size)
	}
}

// typical is the largest room that any node has, resource by resource.
func (s *solver) typical() []float64 {
	scale := make([]float64, len(s.room[0]))
	for d := range scale {
		scale[d] = 1
	}
	for _, r := range s.room {
		for d, n := range r {
			scale[d] = max(scale[d], float64(n))
		}
	}
	return scale
}

func (s *solver) fillClass(c int, size func(capacity.Vector) float64) {
	class := &s.p.Classes[c]
	type candidate struct {
		node int
		room float64
	}
	var candidates []candidate
	for n := class.Nodes.Next(0); n >= 0; n = class.Nodes.Next(n + 1) {
		if class.Request.Fits(s.room[n]) {
			candidates = append(candidates, candidate{n, size(s.room[n])})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.room, b.room) })
	for _, k := range candidates {
		n := class.Request.Times(s.room[k.node], s.left[c])
		if n == 0 {
			continue
		}
		s.room[k.node].Add(class.Request, -int64(n))
		s.placed[k.node] = append(s.placed[k.node], Share{c, n})
		s.left[c] -= n
	}
}
