package overlay

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// Difference is an overlay that says another amount of a resource than nodes show.
type Difference struct {
	Overlay *v1alpha1.NodeOverlay
	Message string
}

// Differing lists, in order of name, the overlays of a corrected snapshot that initialised nodes contradict, each with the first
// resource and node. Plans go by what the nodes show.
func Differing(s *engine.Snapshot) []Difference {
	if len(s.NodeOverlays) == 0 {
		return nil
	}
	types, pools, first := kube.NewTypeIndex(s), kube.PoolsByName(s), map[string]string{}
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
			if overlay := t.Added[name]; first[overlay] == "" && said.Cmp(shown) != 0 {
				first[overlay] = fmt.Sprintf("it says %s of %s for %s, and node %s shows %s: correct the overlay, or find out why the node shows another amount. Pods are placed by what nodes show",
					said.String(), name, t.Name, n.Name, shown.String())
			}
		}
	}
	var out []Difference
	for _, o := range kube.ByName(s.NodeOverlays) {
		if message := first[o.Name]; message != "" {
			out = append(out, Difference{o, message})
		}
	}
	return out
}
