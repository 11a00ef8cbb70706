package bound

import (
	"cmp"
	"math"
	"slices"

	"tenon.sh/engine/capacity"
)

// DualPrices returns the worth of a unit of each resource, in the currency of the prices: the prices at which total is worth most, while no
// machine of these sizes is worth more than it costs. This is the dual of buying fractions of machines. The worth of total at these prices
// is a lower bound for the price of machines that hold it.
func DualPrices(total capacity.Vector, sizes []capacity.Vector, prices []float64) []float64 {
	worth := make([]float64, len(total))
	var dims []int
	for d, n := range total {
		if n > 0 {
			dims = append(dims, d)
		}
	}
	rows := undominated(total, dims, sizes, prices)
	if len(dims) == 0 || len(rows) == 0 {
		return worth
	}
	c := slices.Repeat([]float64{1}, len(dims)) // the amounts are shares of the total
	var a [][]float64
	var b []float64
	for _, i := range rows {
		row := make([]float64, len(dims))
		for k, d := range dims {
			row[k] = float64(max(0, min(sizes[i][d], total[d]))) / float64(total[d])
		}
		a, b = append(a, row), append(b, prices[i])
	}
	_, exponent := math.Frexp(slices.Max(b))
	for i := range b {
		b[i] = math.Ldexp(b[i], -exponent)
	}
	best, _ := maximise(c, a, b, 40*(len(a)+len(c)))
	for k, x := range best {
		worth[dims[k]] = math.Ldexp(x, exponent) / float64(total[dims[k]])
	}
	return worth
}

// MarketPrices returns the DualPrices of a multiple of total that exceeds every machine. DualPrices uses no more of a machine than total has: if
// total is less than a machine, it is worth a whole machine, because it needs one. At market prices, total is worth the share of a machine that it
// uses, so that the price of a pod does not depend on the size of its cluster.
func MarketPrices(total capacity.Vector, sizes []capacity.Vector, prices []float64) []float64 {
	times := int64(1)
	for _, size := range sizes {
		for d, n := range size {
			if total[d] > 0 && n < capacity.Most {
				times = max(times, n/total[d]+1)
			}
		}
	}
	many := make(capacity.Vector, len(total))
	many.Add(total, times)
	return DualPrices(many, sizes, prices)
}

// undominated returns the machines to prefer, cheapest first: no other machine that costs no more has at least as much of everything. It
// leaves out machines that cost nothing.
func undominated(total capacity.Vector, dims []int, sizes []capacity.Vector, prices []float64) []int {
	order := make([]int, len(sizes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(prices[a], prices[b]) })
	var kept []int
	for _, i := range order {
		beaten := slices.ContainsFunc(kept, func(k int) bool {
			return !slices.ContainsFunc(dims, func(d int) bool {
				return min(sizes[i][d], total[d]) > sizes[k][d]
			})
		})
		if !beaten && prices[i] > 0 {
			kept = append(kept, i)
		}
	}
	return kept
}
