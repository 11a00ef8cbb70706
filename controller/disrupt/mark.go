package disrupt

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/lifecycle"
)

// mark notes that the node will go: first the reason on its claim, then the taint on the node.
func (r *Reconciler) mark(ctx context.Context, claim *v1.NodeClaim, node *corev1.Node, d engine.Disruption) (*v1.NodeClaim, *corev1.Node, error) {
	c := v1.GetCondition(claim, v1.ConditionDisruptionReason)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != string(d.Reason) {
		var err error
		claim, err = r.Cluster.ChangeClaimStatus(ctx, claim, func(claim *v1.NodeClaim) {
			v1.SetCondition(claim, v1.ConditionDisruptionReason, metav1.ConditionTrue, string(d.Reason), d.Sentence(), r.Cluster.Clock.Now())
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if tainted(node) {
		return claim, node, nil
	}
	node, err := r.Cluster.ChangeNode(ctx, node, func(node *corev1.Node) {
		closeIt(node)
	})
	return claim, node, err
}

// unmark reverses mark. It opens the node first, because a later pass finds the claim's mark after a crash in between. A node that is being
// deleted stays closed, and so does a node that the cloud takes away. It returns the changed claim.
func (r *Reconciler) unmark(ctx context.Context, claim *v1.NodeClaim, node *corev1.Node) (*v1.NodeClaim, error) {
	if node != nil && node.DeletionTimestamp == nil && tainted(node) {
		_, err := r.Cluster.ChangeNode(ctx, node, func(n *corev1.Node) {
			if !inventory.IsTakenAway(n) {
				lifecycle.Reopen(n)
			}
		})
		if err != nil {
			return claim, err
		}
	}
	if v1.GetCondition(claim, v1.ConditionDisruptionReason) == nil {
		return claim, nil
	}
	return r.Cluster.ChangeClaimStatus(ctx, claim, func(claim *v1.NodeClaim) {
		v1.RemoveCondition(claim, v1.ConditionDisruptionReason, r.Cluster.Clock.Now())
	})
}

// noticePatience is how long a node stays closed because of a notice without an effect.
const noticePatience = 5 * time.Minute

// takeBack unmarks nodes that an earlier pass, or another process, has marked, and that the plan keeps. It ignores claims that are being
// deleted. If a node is closed and its claim has no mark, another process may be about to delete the claim: takeBack opens the node if the
// next pass finds it unchanged, or after noticePatience if a notice closed the node. The process with that notice may have other claims to
// delete first, or has ended and gets the notice again.
func (r *Reconciler) takeBack(ctx context.Context, view *view, plan *engine.Plan) error {
	wanted := map[string]bool{}
	for _, d := range plan.Disruptions {
		for _, claim := range d.Claims {
			wanted[claim] = true
		}
	}
	bare := map[types.UID]time.Time{}
	defer func() { r.bare = bare }()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(view.claims)) {
		claim := view.claims[name]
		node := view.node(claim.Status.NodeName)
		if wanted[name] || node == nil || claim.DeletionTimestamp != nil || node.DeletionTimestamp != nil {
			continue
		}
		if _, marked := inventory.MarkOf(claim); marked {
			continue // goOn handles it
		}
		if v1.GetCondition(claim, v1.ConditionDisruptionReason) == nil {
			if !tainted(node) {
				continue
			}
			since, before := r.bare[node.UID]
			if !before {
				since = view.snapshot.Now
			}
			bare[node.UID] = since
			if !before || inventory.IsTakenAway(node) && view.snapshot.Now.Sub(since) < noticePatience {
				continue
			}
		}
		if there, err := r.Cluster.ClaimExists(ctx, name); err != nil || !there {
			errs = append(errs, err) // the claim was deleted after the snapshot, because of a notice or by another writer
			continue
		}
		log.FromContext(ctx).Info("took disruption back, the node stays", "Node", node.Name, "NodeClaim", name)
		if v1.GetCondition(claim, v1.ConditionDisruptionReason) == nil && inventory.IsTakenAway(node) {
			var err error
			if node, err = r.Cluster.ChangeNode(ctx, node, lifecycle.Reopen); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if _, err := r.unmark(ctx, claim, node); err != nil && !cluster.Expected(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func tainted(node *corev1.Node) bool { return slices.ContainsFunc(node.Spec.Taints, isDisruptedTaint) }

func isDisruptedTaint(t corev1.Taint) bool {
	return t.Key == v1.DisruptedTaintKey && t.Effect == corev1.TaintEffectNoSchedule
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// closeIt adds the taint to the node that keeps new pods off.
func closeIt(node *corev1.Node) {
	if !tainted(node) {
		node.Spec.Taints = append(node.Spec.Taints, v1.DisruptedTaint())
	}
}
