package kwok

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

const (
	// ClaimUIDAnnotationKey holds the UID of the claim for which a Node's machine was started. After a restart, it distinguishes that machine
	// from the machine of an earlier claim of the same name.
	ClaimUIDAnnotationKey = "tenon.sh/nodeclaim-uid"

	priceLabelKey     = "eks-node-viewer/instance-price"
	partitionLabelKey = "kwok-partition"
	betaArchLabelKey  = "beta.kubernetes.io/arch"
	betaOSLabelKey    = "beta.kubernetes.io/os"
	// fakeKey marks the Nodes that KWOK manages.
	fakeKey   = "kwok.x-k8s.io/node"
	fakeValue = "fake"
)

// newNode returns the Node of a machine as its kubelet would register it. KWOK does not manage the Node of a machine that never becomes
// ready.
func newNode(claim *v1.NodeClaim, m engine.Machine, allocatable corev1.ResourceList, price float64, becomesReady bool) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        nodeName(m.ID),
			Labels:      nodeLabels(claim, m, price),
			Annotations: maps.Clone(claim.Annotations),
		},
		Spec: corev1.NodeSpec{
			ProviderID: string(m.ID),
			Taints:     []corev1.Taint{{Key: v1.UnregisteredTaintKey, Effect: corev1.TaintEffectNoExecute}},
		},
		Status: corev1.NodeStatus{
			Capacity:    m.Capacity,
			Allocatable: allocatable,
			Phase:       corev1.NodePending,
		},
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	delete(node.Annotations, corev1.LastAppliedConfigAnnotation)
	maps.Copy(node.Annotations, m.Annotations)
	node.Annotations[ClaimUIDAnnotationKey] = m.ClaimUID
	if becomesReady {
		handOver(node)
	}
	return node
}

// handOver lets KWOK manage the node, which makes it ready.
func handOver(node *corev1.Node) {
	node.Annotations[fakeKey] = fakeValue
	node.Labels[fakeKey] = fakeValue
	node.Labels[partitionLabelKey] = "a"
}

// nodeLabels returns the claim's labels, its requirements with a single value, and the machine's labels. Later ones replace earlier ones.
func nodeLabels(claim *v1.NodeClaim, m engine.Machine, price float64) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, claim.Labels)
	for _, r := range claim.Spec.Requirements {
		if r.Operator == v1.In && len(r.Values) == 1 {
			labels[r.Key] = r.Values[0]
		}
	}
	maps.Copy(labels, m.Labels)
	labels[priceLabelKey] = fmt.Sprintf("%f", price)
	labels[corev1.LabelHostname] = nodeName(m.ID)
	// The old names of labels. Without them, the node controller would add them with one more write.
	for name, old := range map[string]string{corev1.LabelArchStable: betaArchLabelKey, corev1.LabelOSStable: betaOSLabelKey} {
		if value, found := labels[name]; found {
			labels[old] = value
		}
	}
	return labels
}
