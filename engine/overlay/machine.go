package overlay

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/accelerator"
)

// AddTo says of a machine of a corrected type what overlays add to it, and what it will show of accelerators: its node may show it
// only later. What the machine says already is not added again.
func AddTo(m *engine.Machine, t *engine.InstanceType) {
	if len(t.Added) == 0 && t.Devices == nil {
		return
	}
	m.Capacity, m.Allocatable = maps.Clone(m.Capacity), maps.Clone(m.Allocatable)
	if m.Capacity == nil {
		m.Capacity = corev1.ResourceList{}
	}
	if m.Allocatable == nil {
		m.Allocatable = corev1.ResourceList{}
	}
	for name := range t.Capacity {
		if _, added := t.Added[name]; !added && (t.Devices == nil || accelerator.Maker(name) == "") {
			continue
		}
		q, had := t.Capacity[name], m.Capacity[name]
		m.Capacity[name], m.Allocatable[name] = q.DeepCopy(), q.DeepCopy()
		if memory, ok := m.Allocatable[corev1.ResourceMemory]; ok && strings.HasPrefix(string(name), "hugepages-") {
			memory.Add(had)
			memory.Sub(q)
			if memory.Sign() < 0 {
				memory.Set(0)
			}
			m.Allocatable[corev1.ResourceMemory] = memory
		}
	}
}
