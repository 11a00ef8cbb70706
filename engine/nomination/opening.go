package nomination

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
)

// Opening is a node that could take pods now if its opening taint were removed. Pods holds the waiting pods for which it was started.
type Opening struct {
	Node *corev1.Node
	Pods []*corev1.Pod
}

// openingMost is the longest time for which a node that could open waits for nodes that were requested within the same time.
const openingMost = 10 * time.Second

// AwaitSiblings reports whether the nodes of the claims in ready have to wait. They could open since the given time. They wait if another
// claim's machine was started for pods at about the same time, and its node can neither take pods nor open yet.
func AwaitSiblings(ready, claims []*v1.NodeClaim, since, now time.Time) bool {
	if len(ready) == 0 {
		return false
	}
	known := map[types.UID]bool{}
	var times []time.Time
	for _, c := range ready {
		known[c.UID] = true
		times = append(times, c.CreationTimestamp.Time)
	}
	first, last := slices.MinFunc(times, time.Time.Compare), slices.MaxFunc(times, time.Time.Compare)
	if now.Sub(since) >= openingMost {
		return false
	}
	if !slices.ContainsFunc(ready, func(c *v1.NodeClaim) bool { return kube.IsPlannedFor(c) }) {
		return false // no pods wait for these nodes: they replace others, whose pods still run
	}
	return slices.ContainsFunc(claims, func(c *v1.NodeClaim) bool {
		created := c.CreationTimestamp.Time
		return !known[c.UID] && c.DeletionTimestamp == nil && c.Annotations[inventory.ReplacesAnnotation] == "" && kube.IsPlannedFor(c) &&
			!v1.IsTrue(c, v1.ConditionInitialized) &&
			created.Sub(last) < openingMost && first.Sub(created) < openingMost
	})
}

// gangPatience is the longest time, from the creation of a claim, for which other nodes wait for a machine of the same gang.
const gangPatience = 15 * time.Minute

// AwaitGang reports whether the node of the claim, which could open, must stay closed because another machine for pods of the same gang is
// starting. Until that machine is there, kube-scheduler would give the room to other pods. ready reports whether a claim's node could open too.
func AwaitGang(claim *v1.NodeClaim, claims []*v1.NodeClaim, ready func(*v1.NodeClaim) bool, now time.Time) bool {
	gangs := kube.GangsOf(claim)
	if len(gangs) == 0 {
		return false
	}
	return slices.ContainsFunc(claims, func(c *v1.NodeClaim) bool {
		return c.UID != claim.UID && c.DeletionTimestamp == nil && !v1.IsTrue(c, v1.ConditionInitialized) && !ready(c) &&
			now.Sub(c.CreationTimestamp.Time) < gangPatience &&
			slices.ContainsFunc(kube.GangsOf(c), func(name string) bool { return slices.Contains(gangs, name) })
	})
}

// openingWhile is the time after a machine is ready within which a pod may still find its place, or the place of an equal pod. Until then no
// second machine is started for the pod. OpeningPatience limits the time before the machine is ready.
const openingWhile = 10 * time.Second

// PodsOfOpening returns, for each unbound pod, the claim of the machine that was started for the pod, if that machine is opening or has just
// opened.
func PodsOfOpening(s *engine.Snapshot) map[engine.PodID]string {
	claims, joined := map[string]string{}, joinedAt(s)
	for _, c := range s.NodeClaims {
		if isOpening(c, joined[c.Status.ProviderID], s.Now) {
			for _, uid := range kube.PlannedPods(c) {
				claims[uid] = c.Name
			}
		}
	}
	out := map[engine.PodID]string{}
	for _, pod := range s.Pods {
		if name := claims[string(pod.UID)]; name != "" && pod.Spec.NodeName == "" {
			out[kube.PodID(pod)] = name
		}
	}
	return out
}

// joinedAt returns the creation times of the nodes of claims that are not registered yet, by provider ID. If a node is ready at once, one write
// registers and opens it together with other nodes, and its pods are nominated before that.
func joinedAt(s *engine.Snapshot) map[string]time.Time {
	out := map[string]time.Time{}
	for _, c := range s.NodeClaims {
		if id := c.Status.ProviderID; id != "" && !v1.IsTrue(c, v1.ConditionRegistered) {
			out[id] = time.Time{}
		}
	}
	if len(out) == 0 {
		return nil
	}
	for _, n := range s.Nodes {
		if _, asked := out[n.Spec.ProviderID]; asked {
			out[n.Spec.ProviderID] = n.CreationTimestamp.Time
		}
	}
	return out
}

// isOpening reports whether pods that were planned for the claim may still be on their way to their places. joined is the creation time of its
// node, used if the claim is not registered yet.
func isOpening(c *v1.NodeClaim, joined, now time.Time) bool {
	initialized := v1.GetCondition(c, v1.ConditionInitialized)
	if registered := v1.GetCondition(c, v1.ConditionRegistered); registered != nil && registered.Status == metav1.ConditionTrue {
		joined = registered.LastTransitionTime.Time
	}
	switch {
	case c.DeletionTimestamp != nil || joined.IsZero():
		return false
	case initialized == nil || initialized.Status != metav1.ConditionTrue:
		return now.Sub(joined) < 2*lifecycle.OpeningPatience
	}
	return now.Sub(initialized.LastTransitionTime.Time) < openingWhile
}
