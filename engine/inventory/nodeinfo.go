package inventory

import (
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/capacity"
	"tenon.sh/engine/kube"
)

// NodeInfo holds the facts about a node that the engine needs often.
type NodeInfo struct {
	pass uint64 // the last call that read it
	// machine is the node with its last claim; catalogs are the catalogs of that time. Both are nil before.
	machine     *MachineInfo
	catalogs    *catalogs
	machineList uint64 // index of the last list of machines that it was on
	// size is the resources that pods can use, in the order of resources that sizeFor names.
	size    capacity.Vector
	sizeFor string
}

// nodeOf returns the info of a node.
func (cache *Cache) nodeOf(node *corev1.Node) *NodeInfo {
	f := cache.nodes[node]
	if f == nil {
		f = &NodeInfo{}
		if cache.nodes == nil {
			cache.nodes = map[*corev1.Node]*NodeInfo{}
		}
		cache.nodes[node] = f
	}
	f.pass = cache.Pass
	return f
}

// Vector returns the resources that pods can use on the node. It must not be changed.
func (f *NodeInfo) Vector(names *kube.ResourceNames, text string, node *corev1.Node) capacity.Vector {
	if f.sizeFor != text {
		f.size, f.sizeFor = names.Vector(node.Status.Allocatable), text
	}
	return f.size
}

// forgetNodes drops nodes that the last calls have not used, once there are many of them.
func (cache *Cache) forgetNodes(live int) {
	if len(cache.nodes) <= 2*live+100 {
		return
	}
	if cache.machines != nil {
		for _, f := range cache.machines.Infos { // the list of machines keeps these
			if f != nil {
				f.pass = cache.Pass
			}
		}
	}
	for node, f := range cache.nodes {
		if f.pass < cache.Pass-1 {
			delete(cache.nodes, node)
		}
	}
}
