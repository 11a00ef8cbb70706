package workload_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/workload"
)

// This file has a second lower bound for the bill, as a check of the engine's own bound. They share no code: this one reads the snapshot
// itself, and its linear program is solved by the simplest simplex.
//
// The program is the dual of the relaxed packing. A core, a GiB and a pod slot have one value each everywhere. A GPU has one value for each
// distinct set of types on which a pod with GPUs fits. The values are any for which no machine is worth more than its price. The pods' value
// is then a lower bound.

// A size is the size of a pod or machine: cores, GiB, pods, GPUs.
type size [4]float64

const gpus = 3

func sizeOf(list corev1.ResourceList) size {
	gpu := list["nvidia.com/gpu"]
	return size{
		float64(list.Cpu().MilliValue()) / 1000, float64(list.Memory().Value()) / (1 << 30), list.Pods().AsApproximateFloat64(),
		gpu.AsApproximateFloat64(),
	}
}

func (s size) fits(in size) bool {
	for i := range s {
		if s[i] > in[i]+1e-9 {
			return false
		}
	}
	return true
}

// A machine is a type that the pool may buy, at the lowest price.
type machine struct {
	size
	price float64
}

func machinesOf(s *engine.Snapshot) []machine {
	allowed := map[string][]string{}
	for _, r := range s.NodePools[0].Spec.Template.Spec.Requirements {
		allowed[r.Key] = r.Values
	}
	var out []machine
	for _, t := range s.Classes[0].InstanceTypes {
		m := machine{sizeOf(t.Allocatable()), math.Inf(1)}
		for _, o := range t.Offerings {
			if slices.Contains(allowed[v1.CapacityTypeLabelKey], o.CapacityType) {
				m.price = min(m.price, o.Price)
			}
		}
		for key, values := range t.Labels {
			if allowed[key] != nil && !slices.ContainsFunc(values, func(v string) bool { return slices.Contains(allowed[key], v) }) {
				m.price = math.Inf(1)
			}
		}
		if !math.IsInf(m.price, 1) {
			out = append(out, m)
		}
	}
	return out
}

// checkedBound returns the least cost of the pods, for each pod alone and for all together.
func checkedBound(s *engine.Snapshot, pods []*corev1.Pod) float64 {
	machines := machinesOf(s)
	value := []float64{0, 0, 0} // the pods' requests, by variable of the program
	sets := map[string]int{}    // the variable of each set of machines for GPU pods
	var members [][]bool
	alone := 0.0
	for _, pod := range pods {
		need := sizeOf(pod.Spec.Containers[0].Resources.Requests)
		need[2] = 1
		fit, key, cheapest := make([]bool, len(machines)), "", math.Inf(1)
		for i, m := range machines {
			if fit[i] = need.fits(m.size); fit[i] {
				cheapest = min(cheapest, m.price)
				key += fmt.Sprintf("%d,", i)
			}
		}
		alone = max(alone, cheapest)
		for d := range 3 {
			value[d] += need[d]
		}
		if need[gpus] == 0 {
			continue
		}
		if _, known := sets[key]; !known {
			sets[key] = len(value)
			value, members = append(value, 0), append(members, fit)
		}
		value[sets[key]] += need[gpus]
	}
	var rows [][]float64
	var prices []float64
	for i, m := range machines {
		row := make([]float64, len(value))
		copy(row, m.size[:3])
		rows, prices = append(rows, row), append(prices, m.price)
		for set, fit := range members {
			if fit[i] {
				row := slices.Clone(row)
				row[3+set] = m.size[gpus]
				rows, prices = append(rows, row), append(prices, m.price)
			}
		}
	}
	return max(alone, dearest(rows, prices, value))
}

// dearest returns the largest total of value·x, x >= 0, with rows·x <= limits, where no limit is negative. It uses the simplex method on the
// whole table with Bland's rule. The result is the total of a point that keeps to the limits exactly.
func dearest(rows [][]float64, limits, value []float64) float64 {
	n := len(value)
	t := simplex{basic: make([]int, len(rows)), free: make([]int, n)}
	for i := range rows {
		t.table = append(t.table, append(slices.Clone(rows[i]), limits[i]))
		t.basic[i] = n + i
	}
	last := make([]float64, n+1)
	for j := range n {
		last[j], t.free[j] = -value[j], j
	}
	t.table = append(t.table, last)
	for in := t.entering(); in >= 0; in = t.entering() {
		out := t.leaving(in)
		pivot(t.table, out, in)
		t.basic[out], t.free[in] = t.free[in], t.basic[out]
	}
	x := make([]float64, n)
	for i, variable := range t.basic {
		if variable < n {
			x[variable] = max(0, t.table[i][n])
		}
	}
	return feasibleTotal(rows, limits, value, x)
}

// A simplex is the table. Its last row is the objective, its last column is the right-hand side. basic and free have the variables of the
// rows and columns. Variables from the number of columns on are slacks.
type simplex struct {
	table       [][]float64
	basic, free []int
}

const tiny = 1e-11

// entering returns the column of the first variable that would raise the total, -1 at the end.
func (t *simplex) entering() int {
	in := -1
	for j, variable := range t.free {
		if t.table[len(t.basic)][j] < -tiny && (in < 0 || variable < t.free[in]) {
			in = j
		}
	}
	return in
}

// leaving returns the row whose limit is reached first.
func (t *simplex) leaving(in int) int {
	out, n := -1, len(t.free)
	least := math.Inf(1)
	for i, variable := range t.basic {
		if t.table[i][in] <= tiny {
			continue
		}
		ratio := t.table[i][n] / t.table[i][in]
		if ratio < least-tiny || ratio <= least+tiny && variable < t.basic[out] {
			out, least = i, min(least, ratio)
		}
	}
	if out < 0 {
		panic("something costs nothing")
	}
	return out
}

func pivot(t [][]float64, out, in int) {
	p := t[out][in]
	for j := range t[out] {
		t[out][j] /= p
	}
	t[out][in] = 1 / p
	for i := range t {
		factor := t[i][in]
		if i == out || factor == 0 {
			continue
		}
		t[i][in] = 0
		for j := range t[i] {
			t[i][j] -= factor * t[out][j]
		}
	}
}

// feasibleTotal shrinks x until it keeps to all limits, so that a rounding error can only lower the bound.
func feasibleTotal(rows [][]float64, limits, value, x []float64) float64 {
	excess, total := 1.0, 0.0
	for i, row := range rows {
		used := 0.0
		for j := range x {
			used += row[j] * x[j]
		}
		excess = max(excess, used/limits[i])
	}
	for j := range x {
		total += value[j] * x[j]
	}
	return total / excess
}

// launchedPods returns the pods for which the plan buys machines.
func launchedPods(s *engine.Snapshot, plan *engine.Plan) []*corev1.Pod {
	byName := map[string]*corev1.Pod{}
	for _, pod := range s.Pods {
		byName[pod.Name] = pod
	}
	var out []*corev1.Pod
	for _, l := range plan.Launches {
		for _, id := range l.Pods {
			out = append(out, byName[id.Name])
		}
	}
	return out
}

// A plan below the bound would be wrong about a price or a fit. An engine's bound below this one would make its gaps look worse than they
// are. An engine's bound above the plan would be wrong.
func TestNoPlanIsBelowTheIndependentBound(t *testing.T) {
	t.Parallel()
	markets := map[string][]string{
		"on-demand": {v1.CapacityTypeOnDemand},
		"spot-too":  {v1.CapacityTypeOnDemand, v1.CapacityTypeSpot},
	}
	for _, market := range slices.Sorted(maps.Keys(markets)) {
		for _, c := range workload.CostCases() {
			seeds := enginetest.Few(2)
			for seed := range seeds {
				if c.Pods > 1000 && seeds == 1 || c.Pods > 2000 && (seed > 0 || market != "on-demand") {
					continue // one of the largest is enough if all are drawn
				}
				t.Run(fmt.Sprintf("%s/%s/seed-%d", c.Name(), market, seed+1), func(t *testing.T) {
					t.Parallel()
					s := workload.Cost(c.Kind, c.Pods, seed+1, markets[market]...)
					plan := provisioning.Plan(s, engine.Options{}, nil)
					bound := checkedBound(s, launchedPods(s, plan))
					cost := plan.Cost
					if cost.LaunchesPerHour < bound*(1-1e-9) {
						t.Errorf("the plan costs %.4f, less than the bound of %.4f", cost.LaunchesPerHour, bound)
					}
					if cost.Bound > cost.LaunchesPerHour*(1+1e-9) {
						t.Errorf("the plan costs %.4f, less than the engine's bound of %.4f", cost.LaunchesPerHour, cost.Bound)
					}
					if cost.Bound < 0.995*bound {
						t.Errorf("the engine's bound of %.4f is more than 0.5 %% below %.4f", cost.Bound, bound)
					}
					t.Logf("cost %.3f, engine's bound %.3f, checker's bound %.3f", cost.LaunchesPerHour, cost.Bound, bound)
				})
			}
		}
	}
}

// Small programs with known solutions check the solver.
func TestCheckerSolvesLinearPrograms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows          [][]float64
		limits, value []float64
		want          float64
	}{
		"one resource, the cheapest machine counts": {[][]float64{{1}, {2}}, []float64{1, 1}, []float64{10}, 5},
		"two shapes that complement each other":     {[][]float64{{2, 1}, {1, 2}}, []float64{3, 3}, []float64{10, 10}, 20},
		"a resource that all machines have plenty of": {
			[][]float64{{4, 8}, {8, 8}}, []float64{1, 1.9}, []float64{8, 0.001}, 1.9},
		"no pods": {[][]float64{{1}}, []float64{1}, []float64{0}, 0},
	} {
		if got := dearest(c.rows, c.limits, c.value); math.Abs(got-c.want) > 0.001 {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
