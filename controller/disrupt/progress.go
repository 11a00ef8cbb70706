package disrupt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/replacement"
	"tenon.sh/report"
)

// goOn takes the next step of every disruption that is in progress. What fails for one does not stop the others.
func (r *Reconciler) goOn(ctx context.Context, view *view, orders []replacement.Order) error {
	r.look(view, orders)
	errs := make([]error, len(orders))
	r.each(len(orders), func(i int) {
		if err := r.step(ctx, view, orders[i]); err != nil {
			errs[i] = fmt.Errorf("disruption %s of %v: %w", orders[i].ID, orders[i].Claims, err)
		}
	})
	return errors.Join(errs...)
}

// look remembers the orders that this process has begun, or of which it has seen a replacement.
func (r *Reconciler) look(view *view, orders []replacement.Order) {
	seen := map[string]bool{}
	for _, o := range orders {
		there := slices.ContainsFunc(o.Replacements, func(name string) bool { return view.claims[name] != nil })
		if there || r.seen[o.ID] || !o.Decided.Before(r.began) {
			seen[o.ID] = true
		}
	}
	r.seen = seen
}

// failure returns the reason why an order is taken back. It returns the zero Reason if the replacements are gone and this process has seen none of
// them. An earlier process may then have ended before it created any, so later replacements may succeed. If no machines are available, the next
// attempt shows this.
func (r *Reconciler) failure(o replacement.Order, why engine.Reason) engine.Reason {
	if why.Code == engine.ReplacementGone && !r.seen[o.ID] {
		return engine.Reason{}
	}
	return why
}

func (r *Reconciler) step(ctx context.Context, view *view, o replacement.Order) error {
	switch o.Step {
	case replacement.OrderFinish:
		return r.finish(ctx, view, o)
	case replacement.OrderRollBack:
		return r.rollBack(ctx, view, o)
	}
	for _, name := range o.Starting {
		if claim := view.claims[name]; claim != nil {
			r.Recorder.Publish(report.WaitingReadiness(claim))
		}
	}
	return r.closeAll(ctx, view, o)
}

// closeAll closes the nodes of the order, because somebody may have opened one.
func (r *Reconciler) closeAll(ctx context.Context, view *view, o replacement.Order) error {
	errs := make([]error, len(o.Nodes))
	r.each(len(o.Nodes), func(i int) {
		if node := view.node(o.Nodes[i]); node != nil {
			_, errs[i] = r.closeNode(ctx, view, node)
		}
	})
	return unexpected(errs)
}

// finish deletes the claims of an order whose replacements are ready, and releases the claims that stay. First it closes the nodes and
// lists their pods from the API server itself. If a pod is there that the decision did not know, the next pass decides anew, unless the
// machine is broken.
func (r *Reconciler) finish(ctx context.Context, view *view, o replacement.Order) error {
	if gone, err := r.areGone(ctx, o.Gone); err != nil || !gone {
		return err
	}
	if err := r.closeAll(ctx, view, o); err != nil {
		return err
	}
	pods, errs := make([][]*corev1.Pod, len(o.Nodes)), make([]error, len(o.Nodes))
	r.each(len(o.Nodes), func(i int) {
		node := view.node(o.Nodes[i])
		switch {
		case node == nil:
			return
		case !tainted(node):
			errs[i] = apierrors.NewConflict(corev1.Resource("nodes"), node.Name, errors.New("it is open"))
			return
		}
		pods[i], errs[i] = r.Cluster.PodsOn(ctx, node.Name)
	})
	if err := errors.Join(errs...); err != nil {
		return unexpected(errs)
	}
	for i := range o.Nodes {
		if pod := view.unknown(o.Nodes[i], pods[i]); pod != nil && o.Reason != v1.Unhealthy {
			r.Metrics.Overtaken(o.Reason)
			log.FromContext(ctx).Info("will decide anew, a pod came to run on a node that was about to go", "Node", o.Nodes[i], "Pod", pod.Namespace+"/"+pod.Name)
			return nil
		}
	}
	r.each(len(o.Claims), func(i int) {
		if !o.Staying[o.Claims[i]].OK() {
			return
		}
		claim := view.claims[o.Claims[i]]
		if claim, errs[i] = r.limitDrain(ctx, claim, o.DrainWithin); errs[i] != nil {
			return
		}
		if errs[i] = r.Cluster.DeleteClaim(ctx, claim); errs[i] == nil {
			r.tellDeleted(ctx, view, view.node(o.Nodes[i]), claim, o.Reason, o.DrainWithin, pods[i])
		}
	})
	if len(o.Staying)+len(o.Surrender) == 0 || errors.Join(errs...) != nil { // the rest of the order is looked at again
		return unexpected(errs)
	}
	return r.giveUp(ctx, view, o)
}

// areGone asks the API server itself whether none of the claims exists: after a restart the watch may be behind.
func (r *Reconciler) areGone(ctx context.Context, claims []string) (bool, error) {
	for _, name := range claims {
		if there, err := r.Cluster.ClaimExists(ctx, name); err != nil || there {
			return false, err
		}
	}
	return true, nil
}

// rollBack takes an order back.
func (r *Reconciler) rollBack(ctx context.Context, view *view, o replacement.Order) error {
	if o.Why.Code == engine.ReplacementGone {
		if gone, err := r.areGone(ctx, []string{o.Why.Need}); err != nil || !gone {
			return err
		}
	}
	return r.giveUp(ctx, view, o)
}

// giveUp deletes the replacements that the order surrenders. Then it opens the nodes of the claims that stay, and last it removes their marks.
func (r *Reconciler) giveUp(ctx context.Context, view *view, o replacement.Order) error {
	errs := make([]error, len(o.Surrender))
	r.each(len(o.Surrender), func(i int) { errs[i] = r.surrender(ctx, view, o.Surrender[i], o.ID) })
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var why []string
	for _, name := range o.Claims {
		if reason := o.Staying[name]; !reason.OK() {
			why = append(why, name+": "+reason.String())
		}
	}
	log.FromContext(ctx).Info("took disruption back, in whole or in part", "id", o.ID, "stays", why, "goes", o.Going(), "surrendered", o.Surrender)
	errs = make([]error, len(o.Claims))
	r.each(len(o.Claims), func(i int) {
		claim, node := view.claims[o.Claims[i]], view.node(o.Nodes[i])
		why := o.Staying[o.Claims[i]]
		if why.OK() {
			return
		}
		if errs[i] = r.release(ctx, node, claim, o.Reason, r.failure(o, why)); errs[i] == nil {
			r.Recorder.Publish(report.TakenBack(node, claim, why)...)
			r.Recorder.Publish(report.Rejected([]*corev1.Node{node}, []*v1.NodeClaim{claim}, o.Reason, why)...)
		}
	})
	if failed := len(o.Starting) + len(o.Gone); len(o.Claims) > 0 && failed > 0 && errors.Join(errs...) == nil {
		r.Metrics.QueueFailed("replace", o.Reason, failed)
	}
	return unexpected(errs)
}

// surrender deletes a replacement by name, if it is there and belongs to the disruption.
func (r *Reconciler) surrender(ctx context.Context, view *view, name, id string) error {
	claim := view.claims[name]
	if claim == nil {
		claim = &v1.NodeClaim{}
		if err := r.Cluster.API.Get(ctx, client.ObjectKey{Name: name}, claim); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if claim.DeletionTimestamp != nil || !inventory.IsReplacement(claim, id) {
		return nil
	}
	return r.Cluster.DeleteClaim(ctx, claim)
}

// release opens a node again and removes the marks of its claim, last the mark from which a new process would continue. If replacements
// have failed, release writes a backoff annotation instead of this mark.
func (r *Reconciler) release(ctx context.Context, node *corev1.Node, claim *v1.NodeClaim, reason v1.DisruptionReason, why engine.Reason) error {
	claim, err := r.unmark(ctx, claim, node)
	if err != nil {
		return err
	}
	if _, marked := inventory.MarkOf(claim); !marked {
		return nil
	}
	failure, failed := replacement.NextFailure(claim, reason, why, r.Cluster.Clock.Now())
	_, err = r.Cluster.ChangeClaim(ctx, claim, func(c *v1.NodeClaim) {
		delete(c.Annotations, inventory.DisruptionAnnotation)
		if failed {
			c.Annotations[v1.DisruptionBackoffAnnotationKey] = failure
		}
	})
	return err
}

// unknown returns a pod that would have to move, and that the snapshot does not show on the node. It returns nil if there is none.
func (v *view) unknown(node string, pods []*corev1.Pod) *corev1.Pod {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pods == nil {
		v.pods = map[types.UID]string{}
		for _, pod := range v.snapshot.Pods {
			if pod.Spec.NodeName != "" {
				v.pods[pod.UID] = pod.Spec.NodeName
			}
		}
	}
	for _, pod := range pods {
		if kube.IsReschedulable(pod) && v.pods[pod.UID] != node {
			return pod
		}
	}
	return nil
}
