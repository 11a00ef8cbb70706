package lifecycle

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// Adopt returns a claim for a machine of the class without a claim: the cloud's own controllers may replace a machine, and pods may have moved to the
// new one before a launch. It returns nil if no pod on the machine's node would need another node, or if no pool could have started the machine. Of
// the pools that could have started it, the heaviest gets the machine, even beyond the pool's limits, because the machine exists. The claim's name
// follows from the machine's ID, so that no machine is adopted twice; the machine's annotations identify it to its provider. The claim has no startup
// taints, because the node needs none any more.
func Adopt(m engine.Machine, class v1.NodeClassReference, node *corev1.Node, pods []*corev1.Pod, pools []*v1.NodePool) *v1.NodeClaim {
	if m.Leaving || node.DeletionTimestamp != nil || !slices.ContainsFunc(pods, kube.IsReschedulable) {
		return nil
	}
	launch := engine.Launch{}
	for _, key := range []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, v1.CapacityTypeLabelKey} {
		launch.Requirements = append(launch.Requirements, v1.Requirement{Key: key, Operator: v1.In, Values: []string{m.Labels[key]}})
	}
	sorted := slices.SortedFunc(slices.Values(pools), func(a, b *v1.NodePool) int {
		return cmp.Or(cmp.Compare(kube.WeightOf(b), kube.WeightOf(a)), cmp.Compare(a.Name, b.Name))
	})
	for _, pool := range sorted {
		ref, template := pool.Spec.Template.Spec.NodeClassRef, &pool.Spec.Template.Spec
		if ref == nil || *ref != class || !kube.PoolProblem(pool, &engine.Class{Ref: class}).OK() || !kube.HasTaints(node.Spec.Taints, v1.CoreTaints(template.Taints)) {
			continue
		}
		claim := kube.NewClaim(pool, launch)
		maps.Copy(claim.Labels, m.Labels)
		if requirementsDrift(claim, pool, nil) != "" {
			continue
		}
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(m.ID)) // never fails
		claim.Name, claim.GenerateName = fmt.Sprintf("%.54s-%08x", pool.Name, hash.Sum32()), ""
		maps.Copy(claim.Annotations, m.Annotations)
		claim.Spec.StartupTaints = nil
		return claim
	}
	return nil
}
