package disruption

import (
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// legacyCost is upstream's cost of disrupting a machine: what its pods cost to evict, times the share of its life that is left.
func (d *planner) legacyCost(m *inventory.Machine) float64 {
	sum := 0.0
	for _, pod := range m.Bound {
		sum += kube.EvictionCost(pod)
	}
	return sum * m.LifetimeLeft(d.s)
}

// reschedulingCost is upstream's cost of moving a machine's pods: 1 for the machine, and what the pods that need another place
// cost to evict.
func (d *planner) reschedulingCost(m *inventory.Machine) float64 {
	cost := 1.0
	for _, pod := range d.moving(m) {
		cost += max(0, kube.EvictionCost(pod))
	}
	return cost
}
