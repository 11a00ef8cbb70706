package packing

import "slices"

// Strategies returns the names of the strategies.
func Strategies() (names []string) {
	for _, st := range allStrategies() {
		names = append(names, st.name)
	}
	return names
}

// SolveWithout solves the problem without one strategy.
func SolveWithout(p *Problem, name string) *Solution {
	other := *p
	other.strategies = slices.DeleteFunc(allStrategies(), func(st strategy) bool { return st.name == name })
	return Solve(&other)
}
