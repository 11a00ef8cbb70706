package disrupt

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
)

// mark writes down that the node is to go: the claim says why, then the node takes no more pods.
func (r *Reconciler) mark(ctx context.Context, claim *v1.NodeClaim, node *corev1.Node, reason v1.DisruptionReason) (*v1.NodeClaim, *corev1.Node, error) {
	c := v1.GetCondition(claim, v1.ConditionDisruptionReason)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != string(reason) {
		var err error
		claim, err = r.Cluster.PatchClaimStatus(ctx, claim, func(claim *v1.NodeClaim) {
			v1.SetCondition(claim, v1.ConditionDisruptionReason, metav1.ConditionTrue, string(reason), string(reason), r.Cluster.Clock.Now())
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if tainted(node) {
		return claim, node, nil
	}
	node, err := r.Cluster.PatchNode(ctx, node, func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, v1.DisruptedTaint())
	})
	return claim, node, err
}

// unmark takes mark back: the node may take pods again first, so that a crash in between leaves nothing that a later
// pass would not find.
func (r *Reconciler) unmark(ctx context.Context, claim *v1.NodeClaim, node *corev1.Node) error {
	if tainted(node) {
		_, err := r.Cluster.PatchNode(ctx, node, func(node *corev1.Node) {
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isDisruptedTaint)
		})
		if err != nil {
			return err
		}
	}
	if v1.GetCondition(claim, v1.ConditionDisruptionReason) == nil {
		return nil
	}
	_, err := r.Cluster.PatchClaimStatus(ctx, claim, func(claim *v1.NodeClaim) {
		v1.RemoveCondition(claim, v1.ConditionDisruptionReason, r.Cluster.Clock.Now())
	})
	return err
}

// takeBack unmarks nodes that an earlier pass, or another process, marked and that are not to go any more. A claim that
// is being deleted goes whatever was decided about it.
func (r *Reconciler) takeBack(ctx context.Context, view *view, plan *engine.Plan) error {
	wanted := map[string]bool{}
	for _, d := range plan.Disruptions {
		for _, claim := range d.Claims {
			wanted[claim] = true
		}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(view.claims)) {
		claim := view.claims[name]
		node := view.nodes[claim.Status.NodeName]
		if wanted[name] || node == nil || claim.DeletionTimestamp != nil || node.DeletionTimestamp != nil {
			continue
		}
		if !tainted(node) && v1.GetCondition(claim, v1.ConditionDisruptionReason) == nil {
			continue
		}
		log.FromContext(ctx).Info("took disruption back, the node stays", "Node", node.Name, "NodeClaim", name)
		if err := r.unmark(ctx, claim, node); err != nil && !cluster.Expected(err) {
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

// view finds the objects of a snapshot by name.
type view struct {
	now    time.Time
	nodes  map[string]*corev1.Node
	claims map[string]*v1.NodeClaim
	pools  map[string]*v1.NodePool
}

func newView(s *engine.Snapshot) *view {
	v := &view{s.Now, map[string]*corev1.Node{}, map[string]*v1.NodeClaim{}, map[string]*v1.NodePool{}}
	for _, n := range s.Nodes {
		v.nodes[n.Name] = n
	}
	for _, c := range s.NodeClaims {
		v.claims[c.Name] = c
	}
	for _, p := range s.NodePools {
		v.pools[p.Name] = p
	}
	return v
}

// policy is the consolidation policy of the claim's pool.
func (v *view) policy(claim *v1.NodeClaim) v1.ConsolidationPolicy {
	if pool := v.pools[claim.Labels[v1.NodePoolLabelKey]]; pool != nil {
		return pool.Spec.Disruption.ConsolidationPolicy
	}
	return ""
}
