package inventory

import (
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/capacity"
	"tenon.sh/engine/kube"
)

// NodeInfo is what the engine asks of a node again and again.
type NodeInfo struct {
	pass uint64 // the last call that asked
	// machine is the node with the claim that it had last; offer is what was sold then, nil before.
	machine     *MachineInfo
	catalogs    *catalogs
	machineList uint64 // number of the last list of machines that it was on
	// size is what pods can use, in the order of resources that sizeFor names.
	size    capacity.Vector
	sizeFor string
	usage   kube.Usage
	used    bool // usage is known
	// Look is what tells the node from others for pods that mention the labels that LookFor names.
	Look, LookFor string
	// labels are those that replays asked for lately.
	labels []labelFact
}

// labelFact is the value of a label that a node has, or has not.
type labelFact struct {
	key, value string
	there      bool
}

// mostLabels is how many labels of a node are remembered: replays ask for a few all the time.
const mostLabels = 8

// Label is the value of a label of the node, which has dozens.
func (f *NodeInfo) Label(node *corev1.Node, key string) (value string, there bool) {
	for i := range f.labels {
		if l := &f.labels[i]; l.key == key {
			return l.value, l.there
		}
	}
	value, there = node.Labels[key]
	if len(f.labels) == mostLabels {
		f.labels = f.labels[:0]
	}
	f.labels = append(f.labels, labelFact{key, value, there})
	return value, there
}

// nodeOf is what is known of a node.
func (m *Cache) nodeOf(node *corev1.Node) *NodeInfo {
	f := m.nodes[node]
	if f == nil {
		f = &NodeInfo{}
		if m.nodes == nil {
			m.nodes = map[*corev1.Node]*NodeInfo{}
		}
		m.nodes[node] = f
	}
	f.pass = m.Pass
	return f
}

// Vector is what pods can use of the node; nobody may change it.
func (f *NodeInfo) Vector(names *kube.ResourceNames, text string, node *corev1.Node) capacity.Vector {
	if f.sizeFor != text {
		f.size, f.sizeFor = names.Vector(node.Status.Allocatable), text
	}
	return f.size
}

// UsageOf is what pods can use of the node, as scores count it.
func (f *NodeInfo) UsageOf(node *corev1.Node) kube.Usage {
	if !f.used {
		f.usage, f.used = kube.UsageOf(node.Status.Allocatable), true
	}
	return f.usage
}

// forgetNodes drops nodes that the last calls have not asked for, once there are many of them.
func (m *Cache) forgetNodes(live int) {
	if len(m.nodes) <= 2*live+100 {
		return
	}
	if m.machines != nil {
		for _, f := range m.machines.Infos { // nobody has to ask for these
			if f != nil {
				f.pass = m.Pass
			}
		}
	}
	for node, f := range m.nodes {
		if f.pass < m.Pass-1 {
			delete(m.nodes, node)
		}
	}
}
