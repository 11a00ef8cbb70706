package offering

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
)

// Cramped are the options that leave less memory to pods than the pool's floor, for pods that request none. It is nil if there is none, and
// if the pool's requirements name instance types, because its owner has chosen them.
func (m *Pool) Cramped() bitset.Set {
	if m.cramped == nil && !m.crampedKnown && !NamesTypes(m.required) {
		floor := m.memoryFloor()
		for o := range m.Options {
			if m.memoryRoom(o) >= floor {
				continue
			}
			if m.cramped == nil {
				m.cramped = bitset.New(len(m.Options))
			}
			m.cramped.Add(o)
		}
	}
	m.crampedKnown = true
	return m.cramped
}

// Roomy are the ways to use the pools' machines without cramped ones; fewer is false if none was among them.
func Roomy(pools []*Pool, ways *packing.Ways) (roomy *packing.Ways, fewer bool) {
	roomy = &packing.Ways{}
	for i, pool := range pools {
		cramped := pool.Cramped()
		for _, way := range ways.Pools[i] {
			fewer = fewer || cramped != nil && way.Options.Meets(cramped)
		}
		roomy.Pools = append(roomy.Pools, Without(ways.Pools[i], cramped))
	}
	return roomy, fewer
}

// NamesTypes reports whether the term asks for instance types by name.
func NamesTypes(term []requirement.Expression) bool {
	return slices.ContainsFunc(term, func(e requirement.Expression) bool {
		return e.Key == corev1.LabelInstanceTypeStable && e.Op == requirement.In
	})
}

func (m *Pool) memoryFloor() int64 {
	floor, _ := kube.MinMemoryForPods(m.NodePool, m.in.Opt.EffectiveMinMemoryForPods())
	return floor
}

// memoryRoom is how many bytes of memory a machine of the option has for pods, less the requests of DaemonSets' pods. If no pod requests memory,
// the packing problem has no such resource, and the DaemonSets' pods request none either.
func (m *Pool) memoryRoom(o int) int64 {
	if i := m.in.Names.Find(string(corev1.ResourceMemory)); i >= 0 {
		return m.Model.Options[o].Allocatable[i]
	}
	return kube.Amount(corev1.ResourceMemory, m.Options[o].Kind.Allocatable()[corev1.ResourceMemory])
}

// LittleMemory says that pods which request no memory are to run on a machine that leaves less than the floor; the zero Reason if it leaves
// more.
func (m *Pool) LittleMemory(o, pods int, first engine.PodID) engine.Reason {
	room, floor := m.memoryRoom(o), m.memoryFloor()
	if pods == 0 || room >= floor {
		return engine.Reason{}
	}
	more := ""
	if pods > 1 {
		more = " …"
	}
	return engine.Reason{
		Code: engine.LittleMemory, NodePool: m.NodePool.Name, Key: m.Options[o].Kind.Name,
		Need: fmt.Sprintf("%s (%s%s)", engine.Plural(pods, "pod"), first, more), Have: kube.Text(corev1.ResourceMemory, max(room, 0)),
	}
}
