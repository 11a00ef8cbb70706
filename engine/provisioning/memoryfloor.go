package provisioning

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/packing"
)

func (c *podClass) requestsMemory() bool {
	q := c.requests[corev1.ResourceMemory]
	return !q.IsZero()
}

// wantsRoom reports whether machines should leave memory to the pods, because they request none and name no instance type.
func (c *podClass) wantsRoom() bool {
	return !c.requestsMemory() && !slices.ContainsFunc(c.Terms, offering.NamesTypes)
}

// roomy returns the levels without options that leave too little memory to pods without a memory request. A last level has these options,
// because a machine with little memory is better than none.
func (p *Problem) roomy(levels []packing.Level) []packing.Level {
	out, any := slices.Clone(levels), false
	for i := range out {
		ways, fewer := offering.Roomy(p.Pools, out[i].Ways)
		out[i].Ways, any = ways, any || fewer
	}
	if !any {
		return levels
	}
	return append(out, levels[len(levels)-1])
}

// littleMemory returns a note if pods without a memory request are to share less memory of a new machine than the floor.
func (an *answer) littleMemory(m *packing.Machine) []engine.Note {
	var first engine.PodID
	n := 0
	for _, share := range m.Pods {
		c := an.Classes[share.Class]
		if c.requestsMemory() || kube.IsBufferPod(c.Pods[share.Pods[0]]) { // buffer pods need no memory
			continue
		}
		if n == 0 {
			first = kube.PodID(c.Pods[share.Pods[0]])
		}
		n += len(share.Pods)
	}
	pool := an.Pools[m.Pool]
	if r := pool.LittleMemory(m.Chosen, n, first); !r.OK() {
		return []engine.Note{{Object: "NodePool " + pool.NodePool.Name, Reason: r}}
	}
	return nil
}
