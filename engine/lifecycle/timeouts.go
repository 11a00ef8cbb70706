package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

const (
	launchTimeout = 5 * time.Minute

	// readinessTimeout is the time from a node's registration until it must be ready for the first time. Other obstacles to its initialization,
	// for example a startup taint, are intended, and have no limit.
	readinessTimeout = 15 * time.Minute
)

// overdue returns a deletion if the claim is too old, or waits for too long. If not, it returns the time until that may be so, 0 for never.
func overdue(l Life) (*Deletion, time.Duration) {
	for _, node := range l.Nodes {
		if node.DeletionTimestamp != nil && slices.Contains(node.Finalizers, v1.TerminationFinalizer) {
			return &Deletion{}, 0
		}
	}
	limits := []struct {
		active bool
		since  time.Time
		limit  time.Duration
		cause  string
	}{
		{!v1.IsTrue(l.Claim, v1.ConditionLaunched) && !isPending(l.Claim), inventory.WaitingSince(l.Claim, v1.ConditionLaunched), launchTimeout, engine.CauseLaunchTimeout},
		{isNodeGone(l), inventory.WaitingSince(l.Claim, v1.ConditionRegistered), nodePatience, engine.CauseGarbageCollected},
		{!v1.IsTrue(l.Claim, v1.ConditionRegistered), inventory.WaitingSince(l.Claim, v1.ConditionRegistered), inventory.RegistrationTimeout, engine.CauseRegistrationTimeout},
		{neverReady(l), inventory.ReadySince(l.Claim, l.Nodes), readinessTimeout, engine.CauseReadinessTimeout},
		{neverWhole(l), inventory.ReadySince(l.Claim, l.Nodes), inventory.ResourceTimeout, engine.CauseReadinessTimeout},
		{l.Claim.Spec.ExpireAfter.Duration != nil, l.Claim.CreationTimestamp.Time, kube.ExpireAfter(l.Claim), engine.CauseExpired},
	}
	var next Step
	for _, x := range limits {
		if !x.active {
			continue
		}
		left := x.since.Add(x.limit).Sub(l.Now)
		if left <= 0 {
			return &Deletion{Cause: x.cause}, 0
		}
		next.by(left)
	}
	return nil, next.After
}

// neverReady reports whether the claim's only node is not ready, or it has several nodes, and it was never used: it is registered, not
// initialized, and runs only pods that every node has.
func neverReady(l Life) bool {
	return neverUsed(l) && (len(l.Nodes) > 1 || len(l.Nodes) == 1 && !kube.NodeReady(l.Nodes[0]))
}

// neverWhole reports whether only a missing resource keeps the claim's node from its initialization, and the node was never used.
func neverWhole(l Life) bool {
	return neverUsed(l) && len(l.Nodes) == 1 && inventory.MissesResource(l.Claim, l.Nodes[0], l.Published)
}

func neverUsed(l Life) bool {
	return v1.IsTrue(l.Claim, v1.ConditionRegistered) && !v1.IsTrue(l.Claim, v1.ConditionInitialized) &&
		!slices.ContainsFunc(l.Pods, func(pod *corev1.Pod) bool {
			return !kube.IsTerminal(pod) && !kube.OwnedByDaemonSet(pod) && !kube.IsMirror(pod)
		})
}
