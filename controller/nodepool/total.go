package nodepool

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
)

// total adds up the resources of a pool: of its machines, except machines that are on their way out. It always lists the usual
// resources, because readers then need not distinguish zero from absent.
func total(claims []*v1.NodeClaim, nodes map[string]*corev1.Node) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage, v1.ResourceNodes,
	} {
		sum[name] = resource.Quantity{}
	}
	count := int64(0)
	for _, claim := range claims {
		if claim.Status.ProviderID == "" || claim.DeletionTimestamp != nil || v1.IsTrue(claim, v1.ConditionInstanceTerminating) {
			continue
		}
		count++
		for name, quantity := range capacity(claim, nodes[claim.Status.ProviderID]) {
			have := sum[name]
			have.Add(quantity)
			sum[name] = have
		}
	}
	sum[v1.ResourceNodes] = *resource.NewQuantity(count, resource.DecimalSI)
	return sum
}

// capacity returns the resources of a machine: the node's report, and until the node is initialized, the expected values of unreported
// resources.
func capacity(claim *v1.NodeClaim, node *corev1.Node) corev1.ResourceList {
	if node == nil {
		return claim.Status.Capacity
	}
	if node.Labels[v1.InitializedLabelKey] == "true" {
		return node.Status.Capacity
	}
	have := claim.Status.Capacity.DeepCopy()
	if have == nil {
		have = corev1.ResourceList{}
	}
	for name, quantity := range node.Status.Capacity {
		if !quantity.IsZero() {
			have[name] = quantity
		}
	}
	return have
}
