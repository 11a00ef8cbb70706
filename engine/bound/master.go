package bound

import "math"

// master is the linear program that buys fractions of fillings for all pods. It is solved by the revised simplex method (G. B. Dantzig and W.
// Orchard-Hays, 1954): its basis has one filling for each demand, and a better filling replaces one of them.
//
//	min Σ price·x   with   Σ pods·x = count for each demand,   x ≥ 0
//
// A filling may also represent unused room. That filling takes one pod away and costs nothing.
type master struct {
	of      []int // the demands, and after these the existing machines
	demands int   // the number of demands in of
	counts  []float64
	basis   []Filling
	inverse [][]float64 // of the matrix of the basis' pods: of each filling, the further machines that one more pod of each demand needs
	worth   []float64   // of one pod of each demand; 0 if the demand is not in of
	column  []float64   // of a new filling: the number of each filling of the basis that one of it replaces
	at      []int       // of each demand, its index in of
	little  float64     // a smaller worth is a rounding error
	changes int
}

// newMaster begins with one filling for each of the demands, with pods of this demand only; counts has the pods of all demands.
func newMaster(of, counts []int, first []Filling) *master {
	m := &master{of: of, demands: len(of), basis: first, worth: make([]float64, len(counts)), column: make([]float64, len(of)), at: make([]int, len(counts))}
	for j, i := range of {
		n := float64(first[j].Loads[0].Count)
		m.at[i] = j
		m.little = max(m.little, negligible*first[j].Price/n)
		m.counts = append(m.counts, float64(counts[i]))
		m.basis[j].Machines = m.counts[j] / n
		m.inverse = append(m.inverse, make([]float64, len(of)))
		m.inverse[j][j] = 1 / n
	}
	m.price()
	return m
}

// nobody is the Supply of a filling that represents unused room, not a machine.
const nobody = -1

// buy puts fillings into the basis until no filling of the pool is worth more than it costs, and no pod has a negative worth. It returns
// the effort that this took, in steps of the search for fillings.
func (m *master) buy(pool []Filling) (steps int) {
	for range 40 * len(m.of) {
		steps += (len(m.of)*len(m.of) + len(pool)) / 16
		f, least := (*Filling)(nil), 0.0
		for _, i := range m.of[:m.demands] {
			if m.worth[i] < least {
				f, least = &Filling{Supply: nobody, Loads: []Load{{i, -1}}}, m.worth[i]
			}
		}
		if f == nil || -least < m.little {
			f = nil
			most := 1 + negligible
			for i := range pool {
				if rate := pool[i].worth(m.worth) / pool[i].Price; rate > most {
					f, most = &pool[i], rate
				}
			}
		}
		if f == nil || !m.exchange(*f) {
			break
		}
	}
	return steps
}

// leastShare is the least share of a filling that exchange divides by. After `anew` exchanges, the inverse is computed again from the basis, because
// each exchange adds its rounding errors.
const (
	leastShare = 1e-7
	anew       = 100
)

// exchange brings f into the basis, in place of the filling whose number of machines reaches zero first. It returns false if no filling of
// the basis shrinks when f grows.
func (m *master) exchange(f Filling) bool {
	out, first := -1, 0.0
	for j, row := range m.inverse {
		d := 0.0
		for _, l := range f.Loads {
			d += float64(row[m.at[l.Demand]] * float64(l.Count))
		}
		if m.column[j] = d; d < leastShare {
			continue
		}
		if ratio := m.basis[j].Machines / d; out < 0 || ratio < first || ratio == first && d > m.column[out] {
			out, first = j, ratio
		}
	}
	if out < 0 {
		return false
	}
	for k := range m.of {
		m.inverse[out][k] /= m.column[out]
	}
	for j, row := range m.inverse {
		if j == out || m.column[j] == 0 {
			continue
		}
		for k, v := range m.inverse[out] {
			row[k] -= float64(m.column[j] * v)
		}
		m.basis[j].Machines = max(0, m.basis[j].Machines-float64(m.column[j]*first))
	}
	f.Machines = first
	m.basis[out] = f
	if m.changes++; m.changes%anew == 0 {
		m.invert()
	}
	m.price()
	return true
}

// price computes the worth of pods from the prices of the basis.
func (m *master) price() {
	for k, i := range m.of {
		m.worth[i] = 0
		for j := range m.basis {
			m.worth[i] += float64(m.inverse[j][k] * m.basis[j].Price)
		}
	}
}

// invert computes the inverse and the numbers of machines from the basis, by elimination. It changes neither if that fails.
func (m *master) invert() {
	n := len(m.of)
	rows := make([][]float64, n) // of each demand, its pods in each filling of the basis, then the inverse so far
	for k := range rows {
		rows[k] = make([]float64, 2*n)
		rows[k][n+k] = 1
	}
	for j := range m.basis {
		for _, l := range m.basis[j].Loads {
			rows[m.at[l.Demand]][j] = float64(l.Count)
		}
	}
	for j := range n {
		best := j
		for k := j + 1; k < n; k++ {
			if math.Abs(rows[k][j]) > math.Abs(rows[best][j]) {
				best = k
			}
		}
		rows[j], rows[best] = rows[best], rows[j]
		by := rows[j][j]
		if math.Abs(by) < leastShare {
			return
		}
		for c := j; c < 2*n; c++ {
			rows[j][c] /= by
		}
		for k, row := range rows {
			if f := row[j]; k != j && f != 0 {
				for c := j; c < 2*n; c++ {
					row[c] -= float64(f * rows[j][c])
				}
			}
		}
	}
	for j := range n {
		m.inverse[j] = rows[j][n:]
		sum := 0.0
		for k, x := range m.inverse[j] {
			sum += float64(x * m.counts[k])
		}
		m.basis[j].Machines = max(0, sum)
	}
}

// bought returns the fillings with machines.
func (m *master) bought() []Filling {
	var out []Filling
	for _, f := range m.basis {
		if f.Supply != nobody && f.Machines > 0 {
			out = append(out, f)
		}
	}
	return out
}
