package deviceplan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// The devices that a future machine will publish are known from the catalog. For drivers that the catalog does not name, they are assumed to be
// like the devices that nodes of its pool and type have published. The published devices are written on the pool, where they outlive the nodes. If
// several nodes of the type exist, they may have published another number of a driver's devices than the catalog has. Then their number counts for
// as long as they exist.

// mostNodes is the number of nodes of a type, the youngest ones, from which devices are learned.
const mostNodes = 4

// learnedOf returns the known devices of each pool's machines, by type. They are the complete devices of initialized nodes of the pool's present
// template, and the devices written on the pool. The written devices count if no node shows devices of the driver, or if they are more than a
// single node shows. If several nodes show devices, a larger written number is outdated. learnedOf counts the nodes that show devices of a
// driver, by NodePool, type and driver.
func learnedOf(s *engine.Snapshot, published *dra.Published) (out map[string]dra.Learned, nodesOf map[[3]string]int) {
	out, nodesOf = map[string]dra.Learned{}, map[[3]string]int{}
	for _, pool := range s.NodePools {
		out[pool.Name] = dra.Learned{}
	}
	seen := map[[2]string]int{}
	nodes := slices.SortedFunc(slices.Values(s.Nodes), func(a, b *corev1.Node) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	hash := map[string]string{}
	for _, pool := range s.NodePools {
		hash[pool.Name] = pool.Hash()
	}
	for _, node := range nodes {
		pool, kind := node.Labels[v1.NodePoolLabelKey], node.Labels[corev1.LabelInstanceTypeStable]
		known := out[pool]
		if of := node.Annotations[v1.NodePoolHashAnnotationKey]; of != "" && of != hash[pool] &&
			node.Annotations[v1.NodePoolHashVersionAnnotationKey] == v1.HashVersion { // the machine was started from an earlier template
			continue
		}
		if known == nil || kind == "" || node.Labels[v1.InitializedLabelKey] != "true" || node.DeletionTimestamp != nil || seen[[2]string{pool, kind}] == mostNodes {
			continue
		}
		if templates := published.Templates(node); len(templates) > 0 {
			seen[[2]string{pool, kind}]++
			known.Learn(kind, templates)
			for i := range templates {
				if i == 0 || templates[i].Driver != templates[i-1].Driver { // templates are sorted by driver
					nodesOf[[3]string{pool, kind, templates[i].Driver}]++
				}
			}
		}
	}
	for _, pool := range s.NodePools {
		out[pool.Name].Remember(inventory.LearnedDevices(pool, hash[pool.Name]), func(kind string) bool { return seen[[2]string{pool.Name, kind}] > 1 })
	}
	return out, nodesOf
}

// LearnedChanges returns the annotations to write on pools about the devices of their machines, sorted by pool. It returns notes about types for
// which an annotation has no room. If claims are ignored or no ResourceSlices exist, it returns nothing.
func LearnedChanges(s *engine.Snapshot, cache *inventory.Cache) (out []engine.LearnedDevices, notes []engine.Note) {
	if s.Selectors == nil || len(s.ResourceSlices) == 0 {
		return nil, nil
	}
	learned, _ := learnedOf(s, cache.PublishedIn(s))
	for _, pool := range kube.ByName(s.NodePools) {
		known := learned[pool.Name]
		if len(known) == 0 {
			continue
		}
		size, left := 200, []string(nil) // the text around the types
		for _, kind := range slices.Sorted(maps.Keys(known)) {
			own := len(kind) + 4 + len(inventory.AsJSON(known[kind]))
			if size += own; size > inventory.MostLearned { // the annotation may have room for a type with fewer devices
				size -= own
				delete(known, kind)
				left = append(left, kind)
			}
		}
		if len(left) > 0 {
			notes = append(notes, engine.Note{Object: "NodePool " + pool.Name, Reason: engine.Reason{
				Code: engine.DevicesForgotten, NodePool: pool.Name, Need: engine.AtMost(left, 3), Key: v1.LearnedDevicesAnnotationKey}})
		}
		text := inventory.AsJSON(inventory.WrittenDevices{For: pool.Hash(), Types: known})
		if text != pool.Annotations[v1.LearnedDevicesAnnotationKey] {
			out = append(out, engine.LearnedDevices{NodePool: pool.Name, Text: text})
		}
	}
	return out, notes
}
