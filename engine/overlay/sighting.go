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

// Sighting is what a node shows of accelerators, and what its machine was planned with.
type Sighting struct {
	Pool, Type, Node string
	Shown, Planned   corev1.ResourceList
}

// configLabels tell nodes how to show their devices. What a node shows that was told something else says nothing of the next one.
var configLabels = [...]string{accelerator.MIGConfigLabel, accelerator.MIGStrategyLabel, accelerator.PluginConfigLabel}

// Seen lists what running nodes show of accelerators, the newest first, for each pool and type, each thing that they were planned with
// and each that they show one. Nodes that have drifted are of another kind than the next ones.
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
