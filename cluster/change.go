package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

// attempts is the largest number of tries of a change whose writes conflict with other writers.
const attempts = 5

// ChangeNode is PatchNode for a change that is right for every version of the node: after a conflict, ChangeNode reads the node from the API server
// and changes that version. ChangeNode fails if another node has the name by now, or if the node's deletion has begun since the node was read.
func (c *Cluster) ChangeNode(ctx context.Context, node *corev1.Node, change func(*corev1.Node)) (*corev1.Node, error) {
	return again(ctx, c, node, func(n *corev1.Node) (*corev1.Node, error) { return c.PatchNode(ctx, n, change) })
}

// ChangeClaim is PatchClaim in the same way.
func (c *Cluster) ChangeClaim(ctx context.Context, claim *v1.NodeClaim, change func(*v1.NodeClaim)) (*v1.NodeClaim, error) {
	return again(ctx, c, claim, func(n *v1.NodeClaim) (*v1.NodeClaim, error) { return c.PatchClaim(ctx, n, change) })
}

// ChangeClaimStatus is PatchClaimStatus in the same way.
func (c *Cluster) ChangeClaimStatus(ctx context.Context, claim *v1.NodeClaim, change func(*v1.NodeClaim)) (*v1.NodeClaim, error) {
	return again(ctx, c, claim, func(n *v1.NodeClaim) (*v1.NodeClaim, error) { return c.PatchClaimStatus(ctx, n, change) })
}

// again repeats the write after each conflict, up to attempts times. It returns the written object, or the object as again last read it.
func again[T any, P object[T]](ctx context.Context, c *Cluster, from P, write func(P) (P, error)) (P, error) {
	for i := 1; ; i++ {
		written, err := write(from)
		if err == nil {
			return written, nil
		}
		if i == attempts || !apierrors.IsConflict(err) {
			return from, err
		}
		newest := P(new(T))
		if failed := c.API.Get(ctx, client.ObjectKeyFromObject(from), newest); failed != nil {
			return from, fmt.Errorf("%w, and reading it anew: %w", err, failed)
		}
		if newest.GetUID() != from.GetUID() || (newest.GetDeletionTimestamp() != nil) != (from.GetDeletionTimestamp() != nil) {
			return from, err
		}
		from = newest
	}
}
