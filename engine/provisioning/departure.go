package provisioning

import (
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/packing"
)

// PlacedOnMachines solves the problem without new machines and says which pods find a place.
func (p *Problem) PlacedOnMachines() map[*corev1.Pod]bool {
	existing := *p.Packing
	existing.Pools = nil
	placed := map[*corev1.Pod]bool{}
	for _, shares := range packing.Solve(&existing).OnNodes {
		for _, share := range shares {
			for _, n := range share.Pods {
				placed[p.Classes[share.Class].Pods[n]] = true
			}
		}
	}
	return placed
}
