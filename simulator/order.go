package simulator

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/engine/replacement"
)

// orderLook is how often an order is checked without a change of its claims, because the order may have waited too long.
const orderLook = time.Minute

// beginOrder begins a disruption. Without replacements it deletes the claims at once.
func (w *World) beginOrder(d engine.Disruption) {
	claims := make([]*v1.NodeClaim, len(d.Claims))
	for i, name := range d.Claims {
		claim, ok := w.cluster.claims.get(name)
		if !ok || isGoing(claim) {
			w.laws.violate("node %s is disrupted twice", strings.Join(d.Nodes, ", "))
			return
		}
		claims[i] = claim
	}
	w.meter.decided(d)
	w.recordMoves(d)
	mark := inventory.NewMark(d, claims, w.agenda.now)
	for i, l := range d.Replacements {
		mark.Replacements[i] = w.claims.add(w.cluster.pool(l.NodePool), l, map[string]string{v1.ReplacesAnnotationKey: mark.Replaces().String()})
	}
	for _, name := range d.Claims {
		w.mark(name, mark)
	}
	if len(d.Replacements) == 0 {
		w.finish(d.Reason, d.Claims, d.DrainWithin)
		return
	}
	w.orders[mark.ID] = true
	w.lookAtOrder(mark.ID)
	if d.DrainWithin != nil {
		w.agenda.after(*d.DrainWithin, func() { w.pending.orders = true })
	}
}

// lookAtOrder asks for a check of the order every orderLook until the order is over.
func (w *World) lookAtOrder(id string) {
	w.agenda.after(orderLook, func() {
		if w.orders[id] {
			w.pending.orders = true
			w.lookAtOrder(id)
		}
	})
}

// recordMoves writes on the pool the number of pods of each owner that consolidation moves.
func (w *World) recordMoves(d engine.Disruption) {
	if claim, ok := w.cluster.claims.get(d.Claims[0]); ok && len(d.OwnersMoved) > 0 {
		if pool := w.cluster.pool(claim.Labels[v1.NodePoolLabelKey]); pool != nil {
			w.cluster.annotatePool(pool.Name, v1.MovedPodsAnnotationKey, budget.RecordMoves(pool, d, w.agenda.now))
		}
	}
}

// isGoing reports whether the claim is being deleted, or is to be deleted once its replacements are ready.
func isGoing(claim *v1.NodeClaim) bool {
	_, marked := inventory.MarkOf(claim)
	return marked || claim.DeletionTimestamp != nil
}

// mark notes on the claim that its node will be removed, and taints the node.
func (w *World) mark(name string, mark inventory.Mark) {
	claim, _ := w.cluster.claims.get(name)
	claim = claim.DeepCopy()
	if len(mark.Replacements) > 0 {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, v1.DisruptionAnnotationKey, mark.String())
	}
	v1.SetCondition(claim, v1.ConditionDisruptionReason, metav1.ConditionTrue, string(mark.Reason), string(mark.Reason), w.agenda.now)
	w.claims.set(claim)
	if s := w.cluster.seatOf(claim); s != nil && !slices.ContainsFunc(s.node.Spec.Taints, isDisrupted) {
		node := s.node.DeepCopy()
		node.Spec.Taints = append(node.Spec.Taints, v1.DisruptedTaint())
		w.nodes.set(s, node)
	}
}

// unmark removes the mark, and notes a failed attempt on the claim if the next attempt depends on it.
func (w *World) unmark(name string, reason v1.DisruptionReason, why engine.Reason) {
	claim, ok := w.cluster.claims.get(name)
	if !ok || claim.DeletionTimestamp != nil {
		return
	}
	claim = claim.DeepCopy()
	delete(claim.Annotations, v1.DisruptionAnnotationKey)
	if failure, failed := replacement.NextFailure(claim, reason, why, w.agenda.now); failed {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, v1.DisruptionBackoffAnnotationKey, failure)
	}
	v1.RemoveCondition(claim, v1.ConditionDisruptionReason, w.agenda.now)
	w.claims.set(claim)
	if s := w.cluster.seatOf(claim); s != nil {
		node := s.node.DeepCopy()
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isDisrupted)
		w.nodes.set(s, node)
	}
}

func isDisrupted(t corev1.Taint) bool {
	return t.Key == v1.DisruptedTaintKey && t.Effect == corev1.TaintEffectNoSchedule
}

// watchOrders takes the next step of all orders. The baseline does not ask whether all pods have a place once the replacements are ready.
func (w *World) watchOrders(ctx context.Context) {
	w.pending.orders = false
	if len(w.orders) == 0 {
		return
	}
	list := replacement.Progress(w.cluster.snapshot(ctx), w.cfg.Options, &w.progress)
	clear(w.orders)
	for _, o := range list {
		if w.cfg.Policy == Baseline {
			if o.Why.Code == engine.PodStranded {
				o.Step, o.Surrender = replacement.OrderFinish, nil
			}
			maps.DeleteFunc(o.Staying, func(_ string, why engine.Reason) bool { return why.Code == engine.PodStranded })
		}
		switch o.Step {
		case replacement.OrderFinish:
			w.finish(o.Reason, o.Going(), o.DrainWithin)
			w.giveUp(o)
		case replacement.OrderRollBack:
			w.meter.TakenBack++
			w.giveUp(o)
		default:
			w.orders[o.ID] = true
		}
	}
}

// finish deletes the claims, with a drain deadline if the order has one.
func (w *World) finish(reason v1.DisruptionReason, claims []string, within *time.Duration) {
	for _, name := range claims {
		if claim, ok := w.cluster.claims.get(name); ok && claim.DeletionTimestamp == nil {
			if deadline, sooner := lifecycle.DrainDeadline(claim, within, w.agenda.now); sooner {
				claim = claim.DeepCopy()
				metav1.SetMetaDataAnnotation(&claim.ObjectMeta, v1.NodeClaimTerminationTimestampAnnotationKey, deadline)
				w.claims.set(claim)
			}
		}
		w.claims.delete(name, strings.ToLower(string(reason)))
	}
}

// giveUp deletes the replacements that no pod needs, and unmarks the nodes that are kept.
func (w *World) giveUp(o replacement.Order) {
	for _, name := range o.Surrender {
		w.claims.delete(name, "replacement failed")
	}
	for _, name := range o.Claims {
		if why := o.Staying[name]; !why.OK() {
			w.unmark(name, o.Reason, why)
		}
	}
}
