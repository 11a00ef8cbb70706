package disruption

import (
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// evictees are the pods that a drain would send away through the eviction API.
func (d *planner) evictees(h *inventory.Machine) []*inventory.PodInfo {
	r := h.Pods
	if r.EvicteesRead && (r.EvicteesLast || r.EvicteesAt.Equal(d.s.Now)) {
		return r.Evictees
	}
	r.Evictees, r.EvicteesAt, r.EvicteesRead, r.EvicteesLast = nil, d.s.Now, true, true
	for _, f := range r.Infos {
		if !f.Active() || !f.Drainable { // what is active is not stuck
			continue
		}
		if f.Guarded {
			r.EvicteesLast = false
			if kube.ProtectionOf(f.Pod, d.s.Now).Active {
				continue
			}
		}
		r.Evictees = append(r.Evictees, f)
	}
	return r.Evictees
}
