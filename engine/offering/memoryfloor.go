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

// Cramped returns the options that leave less memory to pods than the pool's floor, for pods without a memory request. It is nil if there is
// none, or if the pool's requirements name instance types, because then its owner has chosen them.
func (p *Pool) Cramped() bitset.Set {
	if p.cramped == nil && !p.crampedKnown && !NamesTypes(p.required) {
		floor := p.memoryFloor()
		for o := range p.Options {
			if p.memoryRoom(o) >= floor {
				continue
			}
			if p.cramped == nil {
				p.cramped = bitset.New(len(p.Options))
			}
			p.cramped.Add(o)
		}
	}
	p.crampedKnown = true
	return p.cramped
}

// Roomy returns the ways without cramped options; fewer is false if there was none.
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

// NamesTypes reports whether the term requires instance types by name.
func NamesTypes(term []requirement.Expression) bool {
	return slices.ContainsFunc(term, func(e requirement.Expression) bool {
		return e.Key == corev1.LabelInstanceTypeStable && e.Op == requirement.In
	})
}

func (p *Pool) memoryFloor() int64 {
	floor, _ := kube.MinMemoryForPods(p.NodePool, p.in.Opt.EffectiveMinMemoryForPods())
	return floor
}

// memoryRoom returns the bytes of memory that a machine of the option leaves to pods, minus the requests of DaemonSets' pods. If no pod requests
// memory, the packing problem has no such resource, and the DaemonSets' pods request none either.
func (p *Pool) memoryRoom(o int) int64 {
	if i := p.in.Names.Find(string(corev1.ResourceMemory)); i >= 0 {
		return p.Model.Options[o].Allocatable[i]
	}
	return kube.Amount(corev1.ResourceMemory, p.Options[o].Kind.Allocatable()[corev1.ResourceMemory])
}

// LittleMemory returns the reason that pods without a memory request run on a machine with less memory than the floor; the zero Reason if it has
// more.
func (p *Pool) LittleMemory(o, pods int, first engine.PodID) engine.Reason {
	room, floor := p.memoryRoom(o), p.memoryFloor()
	if pods == 0 || room >= floor {
		return engine.Reason{}
	}
	more := ""
	if pods > 1 {
		more = " …"
	}
	return engine.Reason{
		Code: engine.LittleMemory, NodePool: p.NodePool.Name, Key: p.Options[o].Kind.Name,
		Need: fmt.Sprintf("%s (%s%s)", engine.Plural(pods, "pod"), first, more), Have: kube.Text(corev1.ResourceMemory, max(room, 0)),
	}
}
