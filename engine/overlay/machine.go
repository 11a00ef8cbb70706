package overlay

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/accelerator"
)

// AddTo adds to a machine of a corrected type the resources that overlays set, and the accelerators that the machine will show. It does so
// because the node may show them only later. It sets amounts, so a resource that the machine already has is not counted twice.
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
