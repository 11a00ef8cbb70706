package doctor

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/kube"
	"tenon.sh/provider"
)

const (
	// registers is the time after which the controller gives up a claim whose machine has not joined.
	registers = 15 * time.Minute
	// leaves is the time after which a removal is reported.
	leaves = 30 * time.Minute
)

// claims finds claims whose machine has not joined or whose removal does not end, and claims without a pool.
func claims(p *Picture) []provider.Finding {
	l := list{check: "nodeclaim"}
	if p.Snapshot == nil {
		return nil
	}
	pools := map[string]bool{}
	for _, pool := range p.Snapshot.NodePools {
		pools[pool.Name] = true
	}
	for _, c := range p.Snapshot.NodeClaims {
		object := "NodeClaim " + c.Name
		waits := unjoined(c, p.Now)
		pool := c.Labels[v1.NodePoolLabelKey]
		switch {
		case c.DeletionTimestamp != nil:
			l.leaving(object, c, p.Now, "kubectl describe nodeclaim "+c.Name)
		case waits > registers+5*time.Minute:
			l.problem(object, fmt.Sprintf("its machine has not joined for %s, and nobody has given it up", round(waits)), "see whether the controller runs and serves its node class; else delete it")
		case pool != "" && !pools[pool]:
			l.warning(object, "its NodePool "+pool+" does not exist: it is never replaced", "delete it, or make the pool again")
		}
	}
	return l.or(count(len(p.Snapshot.NodeClaims), "claim") + " looked at")
}

// unjoined returns the time for which the claim's machine has had no registered node. It returns 0 if the machine has one. The claim may have had a
// node before.
func unjoined(c *v1.NodeClaim, now time.Time) time.Duration {
	registered := v1.GetCondition(c, v1.ConditionRegistered)
	switch {
	case registered == nil || !kube.HasJoined(c):
		return now.Sub(c.CreationTimestamp.Time)
	case registered.Status == metav1.ConditionTrue:
		return 0
	}
	return now.Sub(registered.LastTransitionTime.Time)
}

// leaving reports the holder of an object's finalizers if its deletion takes too long.
func (l *list) leaving(object string, o metav1.Object, now time.Time, do string) {
	age := now.Sub(o.GetDeletionTimestamp().Time)
	if age < leaves {
		return
	}
	strangers := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == v1.TerminationFinalizer })
	if len(strangers) == len(o.GetFinalizers()) {
		l.warning(object, fmt.Sprintf("it has been leaving for %s, held by %s, which is not the autoscaler's", round(age), some(strangers, 3)), "ask whose finalizer that is")
		return
	}
	why := "see what its pods wait for"
	if c, ok := o.(*v1.NodeClaim); ok && v1.IsTrue(c, v1.ConditionInstanceTerminating) {
		why = "its machine does not stop"
	}
	l.problem(object, fmt.Sprintf("it has been leaving for %s: %s", round(age), why), do+"; kubectl get events")
}

func round(d time.Duration) string { return d.Round(time.Minute).String() }

// nodes finds pool nodes without a NodeClaim, nodes whose removal does not end, nodes that keep the unregistered taint, two nodes with the
// same machine, and nodes with more volumes than their limit.
func nodes(p *Picture) []provider.Finding {
	l := list{check: "node"}
	if p.Snapshot == nil {
		return nil
	}
	claimed := map[string]bool{}
	for _, c := range p.Snapshot.NodeClaims {
		claimed[c.Status.ProviderID] = true
	}
	seen := map[string]string{}
	for _, n := range p.Snapshot.Nodes {
		object, id := "Node "+n.Name, n.Spec.ProviderID
		if other := seen[id]; id != "" && other != "" {
			l.problem(object, "it says to be the same machine as Node "+other, "delete the one whose kubelet does not run")
		}
		seen[id] = n.Name
		switch {
		case n.DeletionTimestamp != nil && len(n.Finalizers) > 0:
			l.leaving(object, n, p.Now, "kubectl describe node "+n.Name)
		case n.Labels[v1.NodePoolLabelKey] != "" && !claimed[id]:
			l.warning(object, "it carries the label of NodePool "+n.Labels[v1.NodePoolLabelKey]+" and has no NodeClaim: nobody replaces or removes it", "drain and delete it, with its machine, if it is not kept on purpose")
		case hasTaint(n, v1.UnregisteredTaintKey) && p.Now.Sub(n.CreationTimestamp.Time) > registers:
			l.problem(object, "it still carries the taint "+v1.UnregisteredTaintKey+", so that nothing runs there", "see whether the controller runs")
		}
	}
	for _, o := range explain.FindOverattached(p.Snapshot) {
		l.warning("Node "+o.Node, fmt.Sprintf("its pods have %s of %s, and it takes %d: some wait for theirs without an end", count(o.Volumes, "volume"), o.Driver, o.Limit),
			"delete the pods that wait there: their owners make others, which find a node that has room")
	}
	return l.or(count(len(p.Snapshot.Nodes), "node") + " looked at")
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}
