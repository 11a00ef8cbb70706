package overlay

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/accelerator"
	"tenon.sh/engine/kube"
)

// Sighting holds the accelerators that a node shows, and the accelerators that its machine was planned with.
type Sighting struct {
	Pool, Type, Node string
	Shown, Planned   corev1.ResourceList
}

// configLabels determine how nodes show their devices. If a node has other values of these labels than its pool, the pool's next node may show
// other devices.
var configLabels = [...]string{accelerator.MIGConfigLabel, accelerator.MIGStrategyLabel, accelerator.PluginConfigLabel}

// Seen lists the accelerators that initialised nodes show, sorted by pool and type, the newest nodes first. For each pool and type, it lists one
// node for each combination of planned and shown accelerators. It leaves out drifted nodes, because they differ from the pool's next nodes.
func Seen(s *engine.Snapshot) []Sighting {
	var nodes []*corev1.Node
	for _, n := range s.Nodes {
		if n.Labels[v1.InitializedLabelKey] == "true" && n.DeletionTimestamp == nil && accelerator.Of(n.Status.Capacity) != nil {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	claims, pools := map[string]*v1.NodeClaim{}, kube.PoolsByName(s)
	for _, c := range kube.ByName(s.NodeClaims) {
		claims[c.Status.ProviderID] = c
	}
	var out []Sighting
	for _, n := range nodes {
		claim, pool := claims[n.Spec.ProviderID], pools[n.Labels[v1.NodePoolLabelKey]]
		if n.Spec.ProviderID == "" || claim == nil || pool == nil || !saysOfOthers(claim, pool) {
			continue
		}
		seen := Sighting{
			Pool: pool.Name, Type: n.Labels[corev1.LabelInstanceTypeStable], Node: n.Name,
			Shown: accelerator.Of(n.Status.Capacity), Planned: accelerator.Of(claim.Status.Capacity),
		}
		if !slices.ContainsFunc(out, func(o Sighting) bool {
			return o.Pool == seen.Pool && o.Type == seen.Type && accelerator.Same(o.Planned, seen.Planned) && accelerator.Same(o.Shown, seen.Shown)
		}) {
			out = append(out, seen)
		}
	}
	slices.SortStableFunc(out, func(a, b Sighting) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Type, b.Type)) })
	return out
}

func saysOfOthers(claim *v1.NodeClaim, pool *v1.NodePool) bool {
	if claim.DeletionTimestamp != nil || v1.IsTrue(claim, v1.ConditionDrifted) {
		return false
	}
	for _, key := range configLabels {
		if claim.Labels[key] != pool.Spec.Template.Labels[key] {
			return false
		}
	}
	return true
}

func seenIn(pool string, all []Sighting) []Sighting {
	i, _ := slices.BinarySearchFunc(all, pool, func(s Sighting, pool string) int { return cmp.Compare(s.Pool, pool) })
	j := i
	for j < len(all) && all[j].Pool == pool {
		j++
	}
	return all[i:j]
}

func sameSighting(a, b Sighting) bool {
	return a.Pool == b.Pool && a.Type == b.Type && a.Node == b.Node && accelerator.Same(a.Shown, b.Shown) && accelerator.Same(a.Planned, b.Planned)
}
