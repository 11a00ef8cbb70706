package disrupt

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine/kube"
)

// avoid makes kube-scheduler prefer other nodes to the nodes that go next, because new pods there would soon have to move. These nodes
// then drain by themselves as pods come and go.
func (r *Reconciler) avoid(ctx context.Context, view *view, next []string) error {
	var errs []error
	for _, node := range view.snapshot.Nodes {
		marked, wanted := slices.ContainsFunc(node.Spec.Taints, kube.IsLeavingSoon), slices.Contains(next, node.Name)
		if marked == wanted || node.DeletionTimestamp != nil {
			continue
		}
		_, err := r.Cluster.ChangeNode(ctx, node, func(node *corev1.Node) {
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, kube.IsLeavingSoon)
			if wanted {
				node.Spec.Taints = append(node.Spec.Taints, v1.LeavingSoonTaint())
			}
		})
		if err != nil && !cluster.Expected(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
