package packing

import (
	"math"

	"tenon.sh/engine/capacity"
)

// prices says what a unit of each resource is worth where the options' prices decide: the dual of the linear program
// "buy fractions of options so that the sums of all requests fit" (Gilmore and Gomory 1961 give the idea for cutting
// stock). The pods' worth at these prices is a lower bound for what any machines that hold them cost, because
// no option offers more worth than it costs.
func prices(demand capacity.Vector, options []*Option) []float64 {
	var cols []int
	for d, n := range demand {
		if n > 0 {
			cols = append(cols, d)
		}
	}
	u := make([]float64, len(demand))
	if len(cols) == 0 || len(options) == 0 {
		return u
	}
	c := make([]float64, len(cols))
	for j := range cols {
		c[j] = 1 // each column is scaled by its demand, which keeps the numbers near one
	}
	a := make([][]float64, len(options))
	b := make([]float64, len(options))
	for i, o := range options {
		a[i] = make([]float64, len(cols))
		for j, d := range cols {
			a[i][j] = float64(max(0, o.Allocatable[d])) / float64(demand[d])
		}
		b[i] = o.Price
	}
	x := maximise(c, a, b, 50*(len(options)+len(cols)))
	scale := certify(x, a, b)
	for j, d := range cols {
		u[d] = x[j] * scale / float64(demand[d])
	}
	return u
}

// certify returns the factor by which x must shrink so that a·x ≤ b holds in the arithmetic at hand. Any such x gives a
// bound; rounding can only weaken it.
func certify(x []float64, a [][]float64, b []float64) float64 {
	scale := 1.0
	for i := range a {
		sum := 0.0
		for j := range x {
			sum += float64(a[i][j] * x[j])
		}
		if sum > b[i] {
			scale = math.Min(scale, b[i]/sum)
		}
	}
	return scale
}

// worth is the value of a vector at the prices u.
func worth(v capacity.Vector, u []float64) float64 {
	sum := 0.0
	for d, n := range v {
		sum += float64(float64(n) * u[d])
	}
	return sum
}
