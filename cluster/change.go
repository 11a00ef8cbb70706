package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

// attempts is how often a change is tried if other writers are faster.
const attempts = 5

// ChangeNode is PatchNode for changes that are right whatever else has changed: after a conflict it reads the node from the API server,
// and makes the change there. It fails if the node is another one by now, or if its deletion has begun since it was read.
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

// again writes until no other writer is faster. It returns the object after the write, or as it was read.
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
