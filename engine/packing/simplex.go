package packing

import "math"

// maximise solves max c·x subject to A·x ≤ b, x ≥ 0 with b ≥ 0 by the simplex method on a dense table (G. B. Dantzig,
// Linear Programming and Extensions, 1963), with Bland's rule, which cannot cycle. A has few columns here and some
// dozens of rows. It returns the best x; steps bounds the work, and an early stop returns a feasible x all the same.
func maximise(c []float64, a [][]float64, b []float64, steps int) []float64 {
	n, m := len(c), len(b)
	t := newTable(c, a, b)
	basis := make([]int, m) // the variable of each row; slack i is n+i
	for i := range basis {
		basis[i] = n + i
	}
	for range steps {
		col := t.entering(n + m)
		if col < 0 {
			break
		}
		row := t.leaving(col, basis)
		if row < 0 {
			break // unbounded: cannot be where every resource is for sale
		}
		t.pivot(row, col)
		basis[row] = col
	}
	x := make([]float64, n)
	for i, v := range basis {
		if v < n {
			x[v] = max(0, t[i][n+m])
		}
	}
	return x
}

// table holds a row for each constraint and the objective in the last one; the last column is the right-hand side.
type table [][]float64

func newTable(c []float64, a [][]float64, b []float64) table {
	n, m := len(c), len(b)
	t := make(table, m+1)
	for i := range m {
		t[i] = make([]float64, n+m+1)
		copy(t[i], a[i])
		t[i][n+i] = 1
		t[i][n+m] = b[i]
	}
	t[m] = make([]float64, n+m+1)
	for j := range c {
		t[m][j] = -c[j]
	}
	return t
}

const tiny = 1e-11

func (t table) entering(columns int) int {
	last := t[len(t)-1]
	for j := range columns {
		if last[j] < -tiny {
			return j
		}
	}
	return -1
}

func (t table) leaving(col int, basis []int) int {
	best, row := math.Inf(1), -1
	rhs := len(t[0]) - 1
	for i := range len(t) - 1 {
		if t[i][col] <= tiny {
			continue
		}
		ratio := t[i][rhs] / t[i][col]
		if ratio < best-tiny || (ratio <= best+tiny && row >= 0 && basis[i] < basis[row]) {
			best, row = min(best, ratio), i
		}
	}
	return row
}

func (t table) pivot(row, col int) {
	p := t[row][col]
	for j := range t[row] {
		t[row][j] /= p
	}
	for i := range t {
		f := t[i][col]
		if i == row || f == 0 {
			continue
		}
		for j := range t[i] {
			// The conversion keeps a compiler from fusing the two operations, which would round differently on some
			// processors.
			t[i][j] -= float64(f * t[row][j])
		}
	}
}
