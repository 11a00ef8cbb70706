package scheduler

import "tenon.sh/engine/inventory"

// lookOf writes down what tells the node from others; text lists the keys.
func lookOf(f *inventory.NodeInfo, n *nodeInfo, keys []string, text string) string {
	if f.Look == "" || f.LookFor != text {
		f.Look, f.LookFor = n.look(keys), text
	}
	return f.Look
}
