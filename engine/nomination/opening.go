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

// Opening is a node that could take pods now, but for its opening taint, and the pods that it was started for and that
// still wait.
type Opening struct {
	Node *corev1.Node
	Pods []*corev1.Pod
}

// openingMost is how long a node that could open waits for others that were asked for within the same time.
const openingMost = 10 * time.Second

// AwaitSiblings reports whether the nodes of the claims in ready, which could open since a certain time, are to wait: any
// machine of claims was started for pods at about the same time, and its node is neither open nor could open.
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
		return false // nobody waits for them: they replace others, whose pods still run
	}
	return slices.ContainsFunc(claims, func(c *v1.NodeClaim) bool {
		created := c.CreationTimestamp.Time
		return !known[c.UID] && c.DeletionTimestamp == nil && c.Annotations[inventory.ReplacesAnnotation] == "" && kube.IsPlannedFor(c) &&
			!v1.IsTrue(c, v1.ConditionInitialized) &&
			created.Sub(last) < openingMost && first.Sub(created) < openingMost
	})
}

// gangPatience is how long a node that could open waits for a machine of the same gang, from when that was asked for.
const gangPatience = 15 * time.Minute

// AwaitGang reports whether the node of the claim, which could open, is to stay closed: another machine for pods of the same gang is on
// its way, and until it is there kube-scheduler would give the room to others. Ready says of a claim that its node could open too.
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

// openingWhile is how long after its machine is ready a pod may still find its place, or another one that a pod with the
// same trouble left. Until then no second machine is started for it. OpeningPatience bounds how long it takes until then.
const openingWhile = 10 * time.Second

// PodsOfOpening finds the unbound pods that a machine was started for which is opening, or has opened just now.
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

// joinedAt is when the nodes of claims that nobody has called registered yet were made, by their provider IDs. A node that is
// ready at once is registered and opened by one write, together with others, and pods are nominated to it before that.
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

// isOpening reports whether pods that were planned for the claim may still be on their way to their places. Joined is when its
// node came, if that is not registered yet.
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
