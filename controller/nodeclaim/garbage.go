package nodeclaim

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
)

// Collect makes one round of garbage collection: it removes claims without a machine, and machines without a claim unless adopt can create
// one. It removes nothing because of a list that failed, or of a cache alone.
func (r *Reconciler) Collect(ctx context.Context) error {
	claims, err := r.listClaims(ctx, r.Cluster.Client)
	if err != nil {
		return err
	}
	machines, err := r.Cluster.Provider.Machines(ctx)
	if err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	var list corev1.NodeList
	if err := r.Cluster.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	nodes := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	var errs []error
	for _, claim := range lifecycle.Lost(claims, nodes, machines) {
		errs = append(errs, r.removeLost(ctx, claim))
	}
	if r.Adopter != nil {
		errs = append(errs, r.adopt(ctx, nodes))
	}
	return errors.Join(append(errs, r.removeOrphans(ctx, claims, nodes, machines))...)
}

// listClaims lists the claims that this process serves.
func (r *Reconciler) listClaims(ctx context.Context, from client.Reader) ([]*v1.NodeClaim, error) {
	var list v1.NodeClaimList
	if err := from.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list NodeClaims: %w", err)
	}
	var claims []*v1.NodeClaim
	for i := range list.Items {
		if r.Cluster.Serves(list.Items[i].Spec.NodeClassRef) {
			claims = append(claims, &list.Items[i])
		}
	}
	return claims, nil
}

// removeLost deletes a claim if the cloud reports that exactly this machine is gone, because lists may lag.
func (r *Reconciler) removeLost(ctx context.Context, claim *v1.NodeClaim) error {
	id := engine.MachineID(claim.Status.ProviderID)
	if _, err := r.Cluster.Provider.Machine(ctx, id); err == nil {
		return nil
	} else if !errors.Is(err, provider.ErrGone) {
		return fmt.Errorf("look for machine %s of NodeClaim %s: %w", id, claim.Name, err)
	}
	if err := r.Cluster.DeleteClaim(ctx, claim); err != nil {
		return err
	}
	log.FromContext(ctx).Info("deleted claim, its machine is gone", "NodeClaim", claim.Name, "Node", claim.Status.NodeName, "machine", string(id))
	pods, err := r.podsBy(ctx, claim.Status.NodeName)
	if err != nil || claim.Status.NodeName == "" {
		pods = nil // only a metric needs them
	}
	r.Metrics.ClaimDisrupted(engine.CauseGarbageCollected, claim, "", reschedulable(pods))
	return nil
}

// removeOrphans checks the machines again with the API server's claims, if any machine seems to have none.
func (r *Reconciler) removeOrphans(ctx context.Context, claims []*v1.NodeClaim, nodes []*corev1.Node, machines []engine.Machine) error {
	now, kind := r.Cluster.Clock.Now(), r.Cluster.Provider.Kinds()[0]
	class := (&v1.NodeClassReference{Group: kind.Group, Kind: kind.Kind}).LabelKey()
	if len(lifecycle.Orphans(claims, nodes, machines, class, now)) == 0 {
		return nil
	}
	claims, err := r.listClaims(ctx, r.Cluster.API)
	if err != nil {
		return err
	}
	var errs []error
	for _, orphan := range lifecycle.Orphans(claims, nodes, machines, class, now) {
		errs = append(errs, r.removeOrphan(ctx, orphan, nodes))
	}
	return errors.Join(errs...)
}

// removeOrphan deletes the nodes of a machine without a claim, and stops the machine if no pod can run on it. Otherwise the end of the
// drain stops it.
func (r *Reconciler) removeOrphan(ctx context.Context, orphan lifecycle.Orphan, nodes []*corev1.Node) error {
	id := orphan.Machine.ID
	for _, want := range orphan.Nodes {
		if err := r.closeAndDelete(ctx, want, nodes); err != nil && !cluster.Expected(err) {
			return err
		}
	}
	if !orphan.Terminate {
		return nil
	}
	if err := r.Cluster.Provider.Terminate(ctx, id); err != nil && !errors.Is(err, provider.ErrGone) {
		return fmt.Errorf("terminate machine %s, which no NodeClaim owns: %w", id, err)
	}
	log.FromContext(ctx).Info("terminated machine that no claim owns", "machine", string(id), "claim", orphan.Machine.Claim, "created", orphan.Machine.Created)
	return nil
}

func (r *Reconciler) closeAndDelete(ctx context.Context, want *corev1.Node, nodes []*corev1.Node) error {
	for _, node := range nodes {
		if node.Name != want.Name {
			continue
		}
		if node != want {
			if _, err := r.patchNode(ctx, node, want); err != nil {
				return err
			}
		}
		err := r.Cluster.Client.Delete(ctx, node.DeepCopy(), client.Preconditions{UID: &node.UID})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete Node %s, whose machine no NodeClaim owns: %w", node.Name, err)
		}
		log.FromContext(ctx).Info("deleted node that no claim owns", "Node", node.Name)
	}
	return nil
}
