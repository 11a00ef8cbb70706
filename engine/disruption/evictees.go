package disruption

import (
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// evictees are the pods that a drain would send away through the eviction API.
func (d *planner) evictees(h *inventory.Machine) (out []*inventory.PodInfo) {
	for _, f := range h.Pods.Infos {
		if !f.Active() || !f.Drainable || f.Guarded && kube.ProtectionOf(f.Pod, d.s.Now).Active { // what is active is not stuck
			continue
		}
		out = append(out, f)
	}
	return out
}
