package overlay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine"
	"tenon.sh/engine/accelerator"
	"tenon.sh/engine/kube"
)

// Difference is an overlay that sets an amount of a resource which nodes do not show.
type Difference struct {
	Overlay *v1alpha1.NodeOverlay
	Message string
	// Key names the difference without its node. While Key stays the same there is nothing new, even if Message names another node.
	Key string
}

// PoolDifference is a pool with nodes that show other accelerators than they were planned with.
type PoolDifference struct {
	Pool    *v1.NodePool
	Message string
}

// DifferingPools lists, sorted by name, the pools of a corrected snapshot with nodes that contradict their planned accelerators. Each entry
// names the first instance type. From then on, machines of this type are planned with the accelerators that the node shows.
func DifferingPools(s *engine.Snapshot) []PoolDifference {
	var out []PoolDifference
	for i := range s.Classes {
		c := &s.Classes[i]
		j := slices.IndexFunc(c.InstanceTypes, func(t engine.InstanceType) bool { return t.Devices != nil && t.Devices.Node != "" })
		if j < 0 || len(c.Pools) != 1 {
			continue // the accelerators that a node shows concern its pool alone
		}
		t := &c.InstanceTypes[j]
		if pool := kube.FindPool(s, c.Pools[0]); pool != nil {
			out = append(out, PoolDifference{pool, fmt.Sprintf("node %s, of type %s, shows %s, and %s says %s: further machines of this type are planned with what it shows",
				t.Devices.Node, t.Name, accelerator.Words(t.Capacity), cmp.Or(t.Devices.Source, "the catalog"), accelerator.Words(t.Devices.Said))})
		}
	}
	slices.SortFunc(out, func(a, b PoolDifference) int { return cmp.Compare(a.Pool.Name, b.Pool.Name) })
	return out
}

// mostDifferences is the largest number of differences that a message lists for one overlay.
const mostDifferences = 3

// Differing lists, sorted by name, the overlays of a corrected snapshot that initialised nodes contradict. Each entry lists the first resources,
// types and amounts, each with the first node. Plans use the amounts that the nodes show.
func Differing(s *engine.Snapshot) []Difference {
	if len(s.NodeOverlays) == 0 {
		return nil
	}
	types, pools, first := kube.NewTypeIndex(s), kube.PoolsByName(s), map[string]map[string]string{} // by overlay and by difference
	for _, n := range kube.ByName(s.Nodes) {
		pool := pools[n.Labels[v1.NodePoolLabelKey]]
		if pool == nil || n.Labels[v1.InitializedLabelKey] != "true" || n.DeletionTimestamp != nil {
			continue
		}
		t := types.Find(pool.Spec.Template.Spec.NodeClassRef, pool.Name, n.Labels[corev1.LabelInstanceTypeStable])
		if t == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(t.Added)) {
			said, shown := t.Capacity[name], n.Status.Capacity[name]
			if t.Devices != nil && t.Devices.Node != "" && accelerator.Maker(name) != "" {
				said = t.Devices.Said[name]
			}
			if said.Cmp(shown) == 0 {
				continue
			}
			kinds := first[t.Added[name]]
			if kinds == nil {
				kinds = map[string]string{}
				first[t.Added[name]] = kinds
			}
			what := fmt.Sprintf("%s of %s for %s, %s", said.String(), name, t.Name, shown.String())
			if kinds[what] == "" {
				kinds[what] = fmt.Sprintf("it says %s of %s for %s, and node %s shows %s", said.String(), name, t.Name, n.Name, shown.String())
			}
		}
	}
	var out []Difference
	for _, o := range kube.ByName(s.NodeOverlays) {
		kinds := slices.Sorted(maps.Keys(first[o.Name]))
		if len(kinds) == 0 {
			continue
		}
		var said []string
		for _, what := range kinds[:min(len(kinds), mostDifferences)] {
			said = append(said, first[o.Name][what])
		}
		if more := len(kinds) - len(said); more > 0 {
			said = append(said, fmt.Sprintf("and %d more", more))
		}
		out = append(out, Difference{o, strings.Join(said, "; ") + ": correct the overlay, or find out why the nodes show another amount. Pods are placed by what nodes show", strings.Join(kinds, "; ")})
	}
	return out
}
