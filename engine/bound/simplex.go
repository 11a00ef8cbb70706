package bound

import "math"

// maximise solves max c·x subject to A·x ≤ b, x ≥ 0 with b ≥ 0 by the simplex method on a dense dictionary (G. B. Dantzig, Linear
// Programming and Extensions, 1963): the column with the steepest gain enters, and after a while without progress the first one (R. G.
// Bland, 1977), which cannot cycle. It returns the best x, and the prices of b that prove it. steps bounds the work; after an early stop, x
// is still feasible.
func maximise(c []float64, a [][]float64, b []float64, steps int) (x, prices []float64) {
	t := newDictionary(c, a, b)
	idle := 0
	for range steps {
		col := t.entering(idle > 30)
		if col < 0 {
			break
		}
		row := t.leaving(col, idle > 30)
		if row < 0 {
			break // unbounded: impossible if supplies have every resource
		}
		if before := t.value(); t.pivot(row, col) && t.value() > before+tiny {
			idle = 0
		} else {
			idle++
		}
	}
	x, prices = make([]float64, len(c)), make([]float64, len(b))
	for i, v := range t.basic {
		if v < len(c) {
			x[v] = max(0, t.rows[i][len(c)])
		}
	}
	for j, v := range t.other {
		if v >= len(c) {
			prices[v-len(c)] = max(0, t.rows[len(b)][j])
		}
	}
	return x, prices
}

// dictionary is a table with the basic variables, one in each row, as sums of the others. The last row is the objective, the last column the
// constants.
type dictionary struct {
	rows  [][]float64
	basic []int // the variable of each row; slack i is len(c)+i
	other []int // the variable of each column
}

func newDictionary(c []float64, a [][]float64, b []float64) *dictionary {
	n, m := len(c), len(b)
	t := &dictionary{}
	for i := range m {
		row := make([]float64, n+1)
		copy(row, a[i])
		row[n] = b[i]
		t.rows = append(t.rows, row)
		t.basic = append(t.basic, n+i)
	}
	last := make([]float64, n+1)
	for j := range c {
		last[j] = -c[j]
		t.other = append(t.other, j)
	}
	t.rows = append(t.rows, last)
	return t
}

const (
	tiny  = 1e-11
	slack = 1e-10 // the amount by which a constraint may be violated
	least = 1e-8  // the least coefficient to divide by
)

func (t *dictionary) value() float64 { return t.rows[len(t.rows)-1][len(t.other)] }

func (t *dictionary) entering(first bool) int {
	last := t.rows[len(t.rows)-1]
	best, col := -tiny, -1
	for j, v := range t.other {
		switch {
		case last[j] >= -tiny:
		case first && (col < 0 || v < t.other[col]):
			col = j
		case !first && last[j] < best:
			best, col = last[j], j
		}
	}
	return col
}

// leaving returns the row that bounds the column first. Among rows with about the same bound, it takes the largest coefficient, because
// division by a small one would make rounding errors too large (P. M. J. Harris, 1973). With first, it takes the row of the first variable,
// by Bland's rule.
func (t *dictionary) leaving(col int, first bool) int {
	rhs := len(t.other)
	limit := math.Inf(1)
	for i := range t.basic {
		if a := t.rows[i][col]; a > least {
			limit = min(limit, (max(0, t.rows[i][rhs])+slack)/a)
		}
	}
	row := -1
	for i := range t.basic {
		a := t.rows[i][col]
		if a <= least || max(0, t.rows[i][rhs])/a > limit {
			continue
		}
		if row < 0 || (first && t.basic[i] < t.basic[row]) || (!first && a > t.rows[row][col]) {
			row = i
		}
	}
	return row
}

func (t *dictionary) pivot(row, col int) bool {
	pivoted := t.rows[row]
	inverse := 1 / pivoted[col]
	for j := range pivoted {
		pivoted[j] *= inverse
	}
	pivoted[col] = inverse
	for i, r := range t.rows {
		f := r[col]
		if i == row || f == 0 {
			continue
		}
		r[col] = 0
		for j, v := range pivoted {
			// The conversion keeps a compiler from fusing the two operations, because a fused operation rounds differently on some
			// processors.
			r[j] -= float64(f * v)
		}
	}
	t.basic[row], t.other[col] = t.other[col], t.basic[row]
	return true
}
