package disruption

import (
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// legacyCost returns upstream's cost of disrupting a machine: the eviction costs of its pods, times the remaining share of its life.
func (cs *candidates) legacyCost(m *inventory.Machine) float64 {
	sum := 0.0
	for _, pod := range m.Bound {
		sum += kube.EvictionCost(pod)
	}
	return sum * m.LifetimeLeft(cs.s)
}

// reschedulingCost returns upstream's cost of moving a machine's pods: 1 for the machine, plus the eviction costs of the pods that need
// another place.
func (cs *candidates) reschedulingCost(m *inventory.Machine) float64 {
	cost := 1.0
	for _, pod := range cs.moving(m) {
		cost += max(0, kube.EvictionCost(pod))
	}
	return cost
}
