package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// CreateClaim writes a launch down as a NodeClaim. The claim has its finalizer from the start, so that a machine can
// never be started for a claim that could vanish unnoticed, and it goes when its pool does. Every later Snapshot
// holds it.
func (c *Cluster) CreateClaim(ctx context.Context, pool *v1.NodePool, launch engine.Launch) (*v1.NodeClaim, error) {
	claim := engine.NewClaim(pool, launch)
	if err := c.Client.Create(ctx, claim); err != nil {
		return nil, fmt.Errorf("create NodeClaim for pool %s: %w", pool.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims.created(claim, c.Clock.Now())
	return claim, nil
}

// DeleteClaim tells a claim to go: its node is drained and its machine stopped. A claim of the same name that is
// another one is left alone; one that is gone already is no error.
func (c *Cluster) DeleteClaim(ctx context.Context, claim *v1.NodeClaim) error {
	err := c.Client.Delete(ctx, claim.DeepCopy(), client.Preconditions{UID: &claim.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete NodeClaim %s: %w", claim.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims.removed(claim, c.Clock.Now())
	return nil
}

// PatchNode changes a node; it fails with a conflict if the node is not as it was when it was read. Every later
// Snapshot holds the change.
func (c *Cluster) PatchNode(ctx context.Context, node *corev1.Node, change func(*corev1.Node)) (*corev1.Node, error) {
	changed := node.DeepCopy()
	change(changed)
	patch := client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, changed, patch); err != nil {
		return nil, fmt.Errorf("change Node %s: %w", node.Name, err)
	}
	slimNode(changed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes.updated(changed, c.Clock.Now())
	return changed, nil
}

// PatchClaimStatus changes a claim's status; it fails with a conflict if the claim is not as it was when it was read.
// Every later Snapshot holds the change.
func (c *Cluster) PatchClaimStatus(ctx context.Context, claim *v1.NodeClaim, change func(*v1.NodeClaim)) (*v1.NodeClaim, error) {
	changed := claim.DeepCopy()
	change(changed)
	patch := client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Status().Patch(ctx, changed, patch); err != nil {
		return nil, fmt.Errorf("change status of NodeClaim %s: %w", claim.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims.updated(changed, c.Clock.Now())
	return changed, nil
}

// Nominate tells kube-scheduler to try the node first for the pod; an empty name takes such advice back. For a pod that
// is bound by now there is nothing to advise.
func (c *Cluster) Nominate(ctx context.Context, pod *corev1.Pod, node string) error {
	changed := pod.DeepCopy()
	changed.Status.NominatedNodeName = node
	err := c.Client.Status().Patch(ctx, changed, client.StrategicMergeFrom(pod))
	if apierrors.IsInvalid(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("nominate Node %q for Pod %s/%s: %w", node, pod.Namespace, pod.Name, err)
	}
	slimPod(changed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods.updated(changed, c.Clock.Now())
	return nil
}

// PodsOn lists the pods of a node as the API server has them now, not as the watch showed them a moment ago.
func (c *Cluster) PodsOn(ctx context.Context, node string) ([]*corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.API.List(ctx, &pods, client.MatchingFields{PodsByNode: node}); err != nil {
		return nil, fmt.Errorf("list the pods of Node %s: %w", node, err)
	}
	out := make([]*corev1.Pod, 0, len(pods.Items))
	for i := range pods.Items {
		out = append(out, &pods.Items[i])
	}
	return out, nil
}

// Expected reports whether an error is one that a later pass meets with a newer snapshot: the object was changed by
// somebody else, or is gone.
func Expected(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || errors.Is(err, context.Canceled)
}
