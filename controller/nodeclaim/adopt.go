package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine/lifecycle"
)

// adopt creates claims for machines that have no claim and run pods.
func (r *Reconciler) adopt(ctx context.Context, nodes []*corev1.Node) error {
	var list v1.NodePoolList
	if err := r.Cluster.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("list NodePools: %w", err)
	}
	var pools []*v1.NodePool
	var classes []v1.NodeClassReference
	for i := range list.Items {
		pool := &list.Items[i]
		if ref := pool.Spec.Template.Spec.NodeClassRef; r.Cluster.Serves(ref) {
			pools = append(pools, pool)
			if !slices.Contains(classes, *ref) {
				classes = append(classes, *ref)
			}
		}
	}
	var errs []error
	for _, class := range classes {
		errs = append(errs, r.adoptOf(ctx, class, nodes, pools))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) adoptOf(ctx context.Context, ref v1.NodeClassReference, nodes []*corev1.Node, pools []*v1.NodePool) error {
	class, err := r.Cluster.Class(ctx, ref)
	if apierrors.IsNotFound(err) {
		return nil // its pools say so
	}
	if err != nil {
		return err
	}
	machines, err := r.Adopter.Adoptable(ctx, class)
	if err != nil {
		return fmt.Errorf("list the machines of %s %s that belong to no NodeClaim: %w", ref.Kind, ref.Name, err)
	}
	var errs []error
	for _, m := range machines {
		i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Spec.ProviderID == string(m.ID) })
		if i < 0 {
			continue
		}
		pods, err := r.podsBy(ctx, nodes[i].Name)
		if err != nil {
			return err
		}
		claim := lifecycle.Adopt(m, ref, nodes[i], pods, pools)
		if claim == nil {
			continue
		}
		if _, err := r.Cluster.WriteClaim(ctx, claim); err == nil {
			log.FromContext(ctx).Info("adopted machine that no claim owns", "machine", string(m.ID), "Node", nodes[i].Name, "NodeClaim", claim.Name)
		} else if !cluster.Expected(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
