package packing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/workload"
)

// input is one kind of problems for TestAblation.
type input struct {
	name string
	n    int
	draw func(seed uint64) *packing.Problem
}

// inputs lists the kinds of problems in which a strategy may show its worth.
func inputs() []input {
	all := []input{
		{"5 kinds, few pods", 100, func(seed uint64) *packing.Problem { return plainPods(seed, 5, 8) }},
		{"8 kinds", 12, func(seed uint64) *packing.Problem { return plainPods(seed, 8, 20) }},
		{"25 kinds", 6, func(seed uint64) *packing.Problem { return plainPods(seed, 25, 12) }},
		{"rules", 150, func(seed uint64) *packing.Problem { p, _ := drawProblem(seed); return p }},
		{"limits and quotas", 60, rationed},
	}
	for _, kind := range []string{workload.Web, workload.Mix, workload.Spread, workload.GPU} {
		for _, pods := range []int{40, 200} {
			all = append(all, input{fmt.Sprintf("%s, %d pods", kind, pods), 6, func(seed uint64) *packing.Problem {
				return provisioning.CompileProblem(workload.Cost(kind, pods, seed, "on-demand"), engine.Options{}, &inventory.Cache{}).Packing
			}})
		}
	}
	return all
}

// plainPods draws pods of some kinds without rules, for forty types of machines.
func plainPods(seed uint64, kinds, most int) *packing.Problem {
	r := rand.New(rand.NewPCG(seed, 59))
	p := draw(seed)
	p.Effort, p.Classes = 20_000, nil
	pool := packing.Pool{Left: capacity.Vector{capacity.Most, capacity.Most}}
	for i := range 40 {
		cores := int64(2) << (i % 5)
		size := capacity.Vector{cores * 1000, cores * []int64{2, 4, 8}[i%3]}
		price := (0.03*float64(cores) + 0.004*float64(size[1])) * (0.9 + 0.2*r.Float64())
		pool.Options = append(pool.Options, packing.Option{Type: i, Price: price, Allocatable: size, Charge: size, Listed: true})
	}
	p.Pools = []packing.Pool{pool}
	for range kinds {
		c := packing.Class{Request: capacity.Vector{100 * int64(1+r.IntN(60)), int64(1 + r.IntN(16))}, Count: 1 + r.IntN(most)}
		c.Levels = []packing.Level{{Ways: &packing.Ways{Pools: [][]packing.Way{{{Options: bitset.Full(len(pool.Options))}}}}}}
		p.Classes = append(p.Classes, c)
	}
	return p
}

// solved is the result for all problems of one kind.
type solved struct {
	price  []float64
	placed []int
	spent  time.Duration
}

func (in *input) solve(how func(p *packing.Problem) *packing.Solution) (out solved) {
	for seed := range uint64(in.n) {
		p := in.draw(seed)
		began := time.Now()
		s := how(p)
		out.spent += time.Since(began)
		out.price, out.placed = append(out.price, price(p, s)), append(out.placed, len(s.Order))
	}
	return out
}

// Each strategy earns its place: without it, the problems of some kind cost at least 0.3 % more, or fewer pods are placed.
func TestAblation(t *testing.T) {
	enginetest.Long(t)
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WITHOUT\tINPUT\tCOST\tOTHERS\tWORST\tPODS\tTIME")
	worth := map[string]bool{}
	for _, in := range inputs() {
		with := in.solve(packing.Solve)
		for _, name := range packing.Strategies() {
			without := in.solve(func(p *packing.Problem) *packing.Solution { return packing.SolveWithout(p, name) })
			sum, base, others, lost, worst := 0.0, 0.0, 0, 0, 1.0
			for i := range with.price {
				lost += with.placed[i] - without.placed[i]
				if with.placed[i] != without.placed[i] {
					continue
				}
				sum, base = sum+without.price[i], base+with.price[i]
				if ratio := without.price[i] / with.price[i]; ratio > 1+1e-9 || ratio < 1-1e-9 {
					others, worst = others+1, max(worst, ratio)
				}
			}
			more := sum/base - 1
			if more >= 0.003 || lost > 0 {
				worth[name] = true
			}
			fmt.Fprintf(table, "%s\t%s\t%+.2f %%\t%d of %d\t%.3f\t%+d\t%.2f\n", name, in.name, 100*more, others, in.n, worst, -lost, without.spent.Seconds()/with.spent.Seconds())
		}
	}
	table.Flush()
	t.Log("\n" + text.String())
	for _, name := range slices.DeleteFunc(packing.Strategies(), func(name string) bool { return worth[name] }) {
		t.Errorf("the strategy %q buys less than 0.3 %% on every kind of input", name)
	}
}
