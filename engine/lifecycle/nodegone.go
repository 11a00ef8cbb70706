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
	// nodePatience is how long a machine is kept whose node is gone. It may come again: a kubelet makes its node when it starts,
	// and to restart it, or the machine, takes somebody a few minutes. Until then the machine costs money and nothing can run there.
	nodePatience = 5 * time.Minute
)

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
	return kube.HasJoined(l.Claim) && !v1.IsTrue(l.Claim, v1.ConditionRegistered) && len(l.Nodes) == 0
}

// takeBack takes back that the node is registered and initialized: it is gone. What comes in its place is registered like any
// other.
func takeBack(l Life, claim *v1.NodeClaim) {
	kube.SetCondition(claim, v1.ConditionRegistered, metav1.ConditionUnknown, "NodeNotFound", notFound(claim), l.Now)
	kube.SetCondition(claim, v1.ConditionInitialized, metav1.ConditionUnknown, "NodeNotFound", "the node that was registered is gone", l.Now)
}

// notFound says why the claim has no node.
func notFound(claim *v1.NodeClaim) string {
	if !kube.HasJoined(claim) {
		return "the machine has not joined the cluster yet"
	}
	return fmt.Sprintf("Node %s is gone; if the machine's kubelet does not register again, the claim goes %v later", claim.Status.NodeName, nodePatience)
}

// tellNodeGone says why a claim goes whose node has not come again.
func tellNodeGone(claim *v1.NodeClaim) engine.Event {
	return engine.Event{Object: claim, Warning: true, Reason: eventNodeGone, Message: fmt.Sprintf(
		"Node %s has been gone for %v, and the machine's kubelet has not registered again: the claim and its machine go", claim.Status.NodeName, nodePatience)}
}
