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

// orders begins disruptions, and continues those in progress.
type orders struct {
	cfg        *Config
	agenda     *agenda
	laws       *laws
	pending    *pending
	meter      *meter
	cluster    *cluster
	nodes      *nodes
	claims     *claims
	inProgress map[string]bool // the IDs of disruptions with replacements that are in progress
	cache      inventory.Cache // of replacement.Progress
}

// begin begins a disruption. Without replacements it deletes the claims at once.
func (x *orders) begin(d engine.Disruption) {
	claims := make([]*v1.NodeClaim, len(d.Claims))
	for i, name := range d.Claims {
		claim, ok := x.cluster.claims.get(name)
		if !ok || isGoing(claim) {
			x.laws.violate("node %s is disrupted twice", strings.Join(d.Nodes, ", "))
			return
		}
		claims[i] = claim
	}
	x.meter.decided(d)
	x.recordMoves(d)
	mark := inventory.NewMark(d, claims, x.agenda.now)
	for i, l := range d.Replacements {
		mark.Replacements[i] = x.claims.add(x.cluster.pool(l.NodePool), l, map[string]string{v1.ReplacesAnnotationKey: mark.Replaces().String()})
	}
	for _, name := range d.Claims {
		x.mark(name, mark)
	}
	if len(d.Replacements) == 0 {
		x.finish(d.Reason, d.Claims, d.DrainWithin)
		return
	}
	x.inProgress[mark.ID] = true
	x.look(mark.ID)
	if d.DrainWithin != nil {
		x.agenda.after(*d.DrainWithin, func() { x.pending.orders = true })
	}
}

// look asks for a check of the order every orderLook until the order is over.
func (x *orders) look(id string) {
	x.agenda.after(orderLook, func() {
		if x.inProgress[id] {
			x.pending.orders = true
			x.look(id)
		}
	})
}

// recordMoves writes on the pool the number of pods of each owner that consolidation moves.
func (x *orders) recordMoves(d engine.Disruption) {
	if claim, ok := x.cluster.claims.get(d.Claims[0]); ok && len(d.OwnersMoved) > 0 {
		if pool := x.cluster.pool(claim.Labels[v1.NodePoolLabelKey]); pool != nil {
			x.cluster.annotatePool(pool.Name, v1.MovedPodsAnnotationKey, budget.RecordMoves(pool, d, x.agenda.now))
		}
	}
}

// isGoing reports whether the claim is being deleted, or is to be deleted once its replacements are ready.
func isGoing(claim *v1.NodeClaim) bool {
	_, marked := inventory.MarkOf(claim)
	return marked || claim.DeletionTimestamp != nil
}

// mark notes on the claim that its node will be removed, and taints the node.
func (x *orders) mark(name string, mark inventory.Mark) {
	claim, _ := x.cluster.claims.get(name)
	claim = claim.DeepCopy()
	if len(mark.Replacements) > 0 {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, v1.DisruptionAnnotationKey, mark.String())
	}
	v1.SetCondition(claim, v1.ConditionDisruptionReason, metav1.ConditionTrue, string(mark.Reason), string(mark.Reason), x.agenda.now)
	x.claims.set(claim)
	if s := x.cluster.seatOf(claim); s != nil && !slices.ContainsFunc(s.node.Spec.Taints, isDisrupted) {
		node := s.node.DeepCopy()
		node.Spec.Taints = append(node.Spec.Taints, v1.DisruptedTaint())
		x.nodes.set(s, node)
	}
}

// unmark removes the mark, and notes a failed attempt on the claim if the next attempt depends on it.
func (x *orders) unmark(name string, reason v1.DisruptionReason, why engine.Reason) {
	claim, ok := x.cluster.claims.get(name)
	if !ok || claim.DeletionTimestamp != nil {
		return
	}
	claim = claim.DeepCopy()
	delete(claim.Annotations, v1.DisruptionAnnotationKey)
	if failure, failed := replacement.NextFailure(claim, reason, why, x.agenda.now); failed {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, v1.DisruptionBackoffAnnotationKey, failure)
	}
	v1.RemoveCondition(claim, v1.ConditionDisruptionReason, x.agenda.now)
	x.claims.set(claim)
	if s := x.cluster.seatOf(claim); s != nil {
		node := s.node.DeepCopy()
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isDisrupted)
		x.nodes.set(s, node)
	}
}

func isDisrupted(t corev1.Taint) bool {
	return t.Key == v1.DisruptedTaintKey && t.Effect == corev1.TaintEffectNoSchedule
}

// watch takes the next step of all orders. The baseline does not ask whether all pods have a place once the replacements are ready.
func (x *orders) watch(ctx context.Context) {
	x.pending.orders = false
	if len(x.inProgress) == 0 {
		return
	}
	list := replacement.Progress(x.cluster.snapshot(ctx), x.cfg.Options, &x.cache)
	clear(x.inProgress)
	for _, o := range list {
		if x.cfg.Policy == Baseline {
			if o.Why.Code == engine.PodStranded {
				o.Step, o.Surrender = replacement.OrderFinish, nil
			}
			maps.DeleteFunc(o.Staying, func(_ string, why engine.Reason) bool { return why.Code == engine.PodStranded })
		}
		switch o.Step {
		case replacement.OrderFinish:
			x.finish(o.Reason, o.Going(), o.DrainWithin)
			x.giveUp(o)
		case replacement.OrderRollBack:
			x.meter.TakenBack++
			x.giveUp(o)
		default:
			x.inProgress[o.ID] = true
		}
	}
}

// finish deletes the claims, with a drain deadline if the order has one.
func (x *orders) finish(reason v1.DisruptionReason, claims []string, within *time.Duration) {
	for _, name := range claims {
		if claim, ok := x.cluster.claims.get(name); ok && claim.DeletionTimestamp == nil {
			if deadline, sooner := lifecycle.DrainDeadline(claim, within, x.agenda.now); sooner {
				claim = claim.DeepCopy()
				metav1.SetMetaDataAnnotation(&claim.ObjectMeta, v1.NodeClaimTerminationTimestampAnnotationKey, deadline)
				x.claims.set(claim)
			}
		}
		x.claims.delete(name, strings.ToLower(string(reason)))
	}
}

// giveUp deletes the replacements that no pod needs, and unmarks the nodes that are kept.
func (x *orders) giveUp(o replacement.Order) {
	for _, name := range o.Surrender {
		x.claims.delete(name, "replacement failed")
	}
	for _, name := range o.Claims {
		if why := o.Staying[name]; !why.OK() {
			x.unmark(name, o.Reason, why)
		}
	}
}
