package lifecycle

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

const (
	// nodePatience is the time for which a machine without its node is kept. The node may return: a kubelet creates it at its start, and a
	// restart of the kubelet or the machine takes a few minutes. Meanwhile the machine costs money and can run nothing.
	nodePatience = 5 * time.Minute
)

// anyRegistered reports whether one of the nodes has the label of registration.
func anyRegistered(nodes []*corev1.Node) bool {
	for _, n := range nodes {
		if n.Labels[v1.RegisteredLabelKey] == "true" {
			return true
		}
	}
	return false
}

// isNodeGone reports whether the claim's registered node no longer exists.
func isNodeGone(l Life) bool {
	return kube.HasJoined(l.Claim) && !v1.IsTrue(l.Claim, v1.ConditionRegistered) && len(l.Nodes) == 0
}

// takeBack marks the claim as not registered and not initialized, because its node is gone. A later node is registered like any other.
func takeBack(l Life, claim *v1.NodeClaim) {
	kube.SetCondition(claim, v1.ConditionRegistered, metav1.ConditionUnknown, "NodeNotFound", notFound(claim), l.Now)
	kube.SetCondition(claim, v1.ConditionInitialized, metav1.ConditionUnknown, "NodeNotFound", "the node that was registered is gone", l.Now)
}

// notFound returns a text about why the claim has no node.
func notFound(claim *v1.NodeClaim) string {
	if !kube.HasJoined(claim) {
		return "the machine has not joined the cluster yet"
	}
	return fmt.Sprintf("Node %s is gone; if the machine's kubelet does not register again, the claim goes %v later", claim.Status.NodeName, nodePatience)
}

// tellNodeGone returns the event of a claim that is deleted because its node did not return.
func tellNodeGone(claim *v1.NodeClaim) engine.Event {
	return engine.Event{Object: claim, Warning: true, Reason: eventNodeGone, Message: fmt.Sprintf(
		"Node %s has been gone for %v, and the machine's kubelet has not registered again: the claim and its machine go", claim.Status.NodeName, nodePatience)}
}
