package scenario

import (
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
)

// ScaleDown returns the cluster without a random share of its pods, 0 to 1.
func ScaleDown(s *engine.Snapshot, share float64, seed uint64) *engine.Snapshot {
	out := clone(s)
	random := rand.New(rand.NewPCG(seed, 0x5ca1e))
	leaves := map[*corev1.Pod]bool{}
	for _, i := range random.Perm(len(out.Pods))[:int(share*float64(len(out.Pods)))] {
		leaves[out.Pods[i]] = true
	}
	out.Pods = slices.DeleteFunc(out.Pods, func(p *corev1.Pod) bool { return leaves[p] })
	return &out
}

// Unbound returns the cluster without machines and with all pods pending, as the input of a completely new plan.
func Unbound(s *engine.Snapshot) *engine.Snapshot {
	out := clone(s)
	nodes := map[string]bool{}
	for _, n := range s.Nodes {
		nodes[n.Name] = true
	}
	removeNodes(&out, nodes)
	return &out
}
