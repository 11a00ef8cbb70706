package engine

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

const (
	// nodePatience is how long a machine is kept whose node is gone. It may come again: a kubelet makes its node when it starts,
	// and to restart it, or the machine, takes somebody a few minutes. Until then the machine costs money and nothing can run there.
	nodePatience = 5 * time.Minute
	// nodeLag is how far the watch of nodes may be behind that of claims.
	nodeLag = 10 * time.Second
)

// HasJoined reports whether the claim's machine has had a registered node, be it there still or not.
func HasJoined(claim *v1.NodeClaim) bool {
	return claim.Status.NodeName != "" || v1.IsTrue(claim, v1.ConditionRegistered)
}

// anyRegistered reports whether one of the nodes carries what registration writes.
func anyRegistered(nodes []*corev1.Node) bool {
	for _, n := range nodes {
		if n.Labels[v1.RegisteredLabelKey] == "true" {
			return true
		}
	}
	return false
}

// isNodeGone reports whether the claim says so: a node that was registered is no longer there.
func isNodeGone(l Life) bool {
	return HasJoined(l.Claim) && !v1.IsTrue(l.Claim, v1.ConditionRegistered) && len(l.Nodes) == 0
}

// takeBack takes back that the node is registered and initialized: it is gone. What comes in its place is registered like any
// other.
func takeBack(l Life, claim *v1.NodeClaim) {
	set(claim, v1.ConditionRegistered, metav1.ConditionUnknown, "NodeNotFound", notFound(claim), l.Now)
	set(claim, v1.ConditionInitialized, metav1.ConditionUnknown, "NodeNotFound", "the node that was registered is gone", l.Now)
}

// notFound says why the claim has no node.
func notFound(claim *v1.NodeClaim) string {
	if !HasJoined(claim) {
		return "the machine has not joined the cluster yet"
	}
	return fmt.Sprintf("Node %s is gone; if the machine's kubelet does not register again, the claim goes %v later", claim.Status.NodeName, nodePatience)
}

// tellNodeGone says why a claim goes whose node has not come again.
func tellNodeGone(claim *v1.NodeClaim) Event {
	return Event{Object: claim, Warning: true, Reason: eventNodeGone, Message: fmt.Sprintf(
		"Node %s has been gone for %v, and the machine's kubelet has not registered again: the claim and its machine go", claim.Status.NodeName, nodePatience)}
}

// isBare reports whether the node came after the claim's machine was registered, and lacks what registration writes: somebody has
// deleted the one that had it.
func isBare(node *corev1.Node, claim *v1.NodeClaim) bool {
	created := node.CreationTimestamp
	return v1.IsTrue(claim, v1.ConditionRegistered) && node.Labels[v1.RegisteredLabelKey] != "true" &&
		(created.IsZero() || created.After(since(claim, v1.ConditionRegistered)))
}

// isGone reports whether the machine has lost its node: it costs money, and no pod can run there. What has been registered a moment
// ago may be a node that the snapshot does not show yet.
func (m *machine) isGone(now time.Time) bool {
	if m.node != nil || !HasJoined(m.claim) {
		return false
	}
	return !v1.IsTrue(m.claim, v1.ConditionRegistered) || now.Sub(since(m.claim, v1.ConditionRegistered)) > nodeLag
}

// nodeGone is why nobody counts on such a machine.
func (h *host) nodeGone() Reason {
	return Reason{Code: NodeGone, NodePool: h.pool(), Need: cmp.Or(h.claim.Status.NodeName, h.claim.Name)}
}
