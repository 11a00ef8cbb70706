package disruption

import (
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// evictees returns the pods that a drain would evict through the eviction API.
func (cs *candidates) evictees(m *inventory.Machine) (out []*inventory.PodInfo) {
	for _, info := range m.Pods.Infos {
		if !info.Active() || !info.Drainable || info.Guarded && kube.ProtectionOf(info.Pod, cs.s.Now).Active { // an active pod is not stuck
			continue
		}
		out = append(out, info)
	}
	return out
}
