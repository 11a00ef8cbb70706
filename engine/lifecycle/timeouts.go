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

	// readinessTimeout is how long a node may take from its registration until it is ready for the first time. What else
	// keeps it from being initialized, such as a startup taint, is somebody's will, and may take as long as it likes.
	readinessTimeout = 15 * time.Minute
)

// overdue says whether the claim has to go because of its age, or of the age of something it waits for. If not, it says
// how long until that may be, 0 for never.
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

// neverReady reports whether the claim's node is registered and not ready, or one of several, which are not initialized, and has
// never been of any use: no pods run there but those that every node has.
func neverReady(l Life) bool {
	return neverUsed(l) && (len(l.Nodes) > 1 || len(l.Nodes) == 1 && !kube.NodeReady(l.Nodes[0]))
}

// neverWhole reports whether all that keeps the claim's node from being initialized is a resource that it does not have, and it has
// never been of any use.
func neverWhole(l Life) bool {
	return neverUsed(l) && len(l.Nodes) == 1 && inventory.MissesResource(l.Claim, l.Nodes[0], l.Published)
}

func neverUsed(l Life) bool {
	return v1.IsTrue(l.Claim, v1.ConditionRegistered) && !v1.IsTrue(l.Claim, v1.ConditionInitialized) &&
		!slices.ContainsFunc(l.Pods, func(pod *corev1.Pod) bool {
			return !kube.IsTerminal(pod) && !kube.OwnedByDaemonSet(pod) && !kube.IsMirror(pod)
		})
}
