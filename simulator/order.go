package simulator

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
)

// Annotations by which claims say that they go, and what comes in their place.
const (
	disruptionAnnotation = "tenon.sh/disruption"
	replacesAnnotation   = "tenon.sh/replaces"
)

// order is a disruption in progress: nodes that go once their replacements are ready.
type order struct {
	id           string
	reason       v1.DisruptionReason
	claims       []string // that go
	replacements []string // claims that come
	// within is how long the drains may take, nil for as long as the claims say. A repair waits for its replacements no longer.
	within *time.Duration
	due    time.Time // when a repair has waited long enough
}

// orderRecord is what the claims that go say of an order, replacementRecord what those say that come.
type orderRecord struct {
	ID           string    `json:"id"`
	Reason       string    `json:"reason"`
	Decided      time.Time `json:"decided"`
	Replacements []string  `json:"replacements"`
	Nodes        []string  `json:"nodes"`
}

type replacementRecord struct {
	ID     string   `json:"id"`
	Claims []string `json:"claims"`
}

// beginOrder begins a disruption. Without replacements it ends here: the claims go.
func (w *World) beginOrder(d engine.Disruption) {
	if d.Reason == v1.Unhealthy {
		w.forget(d.Claims)
	}
	if slices.ContainsFunc(d.Claims, w.isGoing) {
		w.violate("node %s is disrupted twice", strings.Join(d.Nodes, ", "))
		return
	}
	w.meter.decided(d)
	w.recordMoves(d)
	w.uids++
	o := &order{id: fmt.Sprintf("order-%d", w.uids), reason: d.Reason, claims: slices.Clone(d.Claims), within: d.DrainWithin}
	for _, l := range d.Replacements {
		record := text(replacementRecord{o.id, o.claims})
		o.replacements = append(o.replacements, w.addClaim(w.pool(l.NodePool), l, map[string]string{replacesAnnotation: record}))
	}
	record := text(orderRecord{o.id, string(d.Reason), w.clock.now.UTC(), o.replacements, d.Nodes})
	for _, name := range o.claims {
		w.mark(name, d.Reason, record)
	}
	if len(o.replacements) == 0 {
		w.finish(o)
		return
	}
	w.orders = append(w.orders, o)
	w.ordersToWatch = true
	if o.reason == v1.Unhealthy && o.within != nil {
		o.due = w.clock.now.Add(*o.within)
		w.at(o.due, func() { w.ordersToWatch = true })
	}
}

// recordMoves writes on the pool how many pods of each owner consolidation moves.
func (w *World) recordMoves(d engine.Disruption) {
	if claim, ok := w.claims.get(d.Claims[0]); ok && len(d.OwnersMoved) > 0 {
		if pool := w.pool(claim.Labels[v1.NodePoolLabelKey]); pool != nil {
			w.annotatePool(pool.Name, v1.MovedPodsAnnotationKey, budget.RecordMoves(pool, d, w.clock.now))
		}
	}
}

// forget takes claims out of the orders that they are in: they go by themselves.
func (w *World) forget(claims []string) {
	for _, o := range w.orders {
		o.claims = slices.DeleteFunc(o.claims, func(name string) bool { return slices.Contains(claims, name) })
	}
}

func text(record any) string {
	out, err := json.Marshal(record)
	if err != nil {
		panic(err) // text and times can be written
	}
	return string(out)
}

func (w *World) isGoing(claim string) bool {
	c, ok := w.claims.get(claim)
	return !ok || c.DeletionTimestamp != nil || slices.ContainsFunc(w.orders, func(o *order) bool { return slices.Contains(o.claims, claim) })
}

// mark writes down that a node is to go, and keeps new pods off.
func (w *World) mark(name string, reason v1.DisruptionReason, record string) {
	claim, _ := w.claims.get(name)
	claim = claim.DeepCopy()
	claim.Annotations = maps.Clone(claim.Annotations)
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[disruptionAnnotation] = record
	v1.SetCondition(claim, v1.ConditionDisruptionReason, metav1.ConditionTrue, string(reason), string(reason), w.clock.now)
	w.setClaim(claim)
	if s := w.seatOf(claim); s != nil && !slices.ContainsFunc(s.node.Spec.Taints, isDisrupted) {
		node := s.node.DeepCopy()
		node.Spec.Taints = append(node.Spec.Taints, v1.DisruptedTaint())
		w.setNode(s, node)
	}
}

// unmark takes mark back.
func (w *World) unmark(name string) {
	claim, ok := w.claims.get(name)
	if !ok || claim.DeletionTimestamp != nil {
		return
	}
	claim = claim.DeepCopy()
	delete(claim.Annotations, disruptionAnnotation)
	v1.RemoveCondition(claim, v1.ConditionDisruptionReason, w.clock.now)
	w.setClaim(claim)
	if s := w.seatOf(claim); s != nil {
		node := s.node.DeepCopy()
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isDisrupted)
		w.setNode(s, node)
	}
}

func isDisrupted(t corev1.Taint) bool {
	return t.Key == v1.DisruptedTaintKey && t.Effect == corev1.TaintEffectNoSchedule
}

// watchOrders goes on with the orders whose replacements are ready, and takes those back whose replacements failed.
func (w *World) watchOrders() {
	w.ordersToWatch = false
	for _, o := range slices.Clone(w.orders) {
		ready, failed := 0, false
		for _, name := range o.replacements {
			claim, ok := w.claims.get(name)
			failed = failed || !ok || claim.DeletionTimestamp != nil
			ready += count(ok && v1.IsTrue(claim, v1.ConditionInitialized))
		}
		overdue := o.reason == v1.Unhealthy && (failed || !w.clock.now.Before(o.due))
		switch {
		case failed && !overdue:
			w.takeBack(o)
		case overdue || ready == len(o.replacements):
			w.close(o)
			w.finish(o)
		}
	}
}

func (w *World) close(o *order) {
	w.orders = slices.DeleteFunc(w.orders, func(x *order) bool { return x == o })
}

// finish lets the nodes go.
func (w *World) finish(o *order) {
	for _, name := range o.claims {
		if claim, ok := w.claims.get(name); ok && claim.DeletionTimestamp == nil {
			if deadline, sooner := lifecycle.DrainDeadline(claim, o.within, w.clock.now); sooner {
				claim = claim.DeepCopy()
				metav1.SetMetaDataAnnotation(&claim.ObjectMeta, v1.NodeClaimTerminationTimestampAnnotationKey, deadline)
				w.setClaim(claim)
			}
		}
		w.deleteClaim(name, strings.ToLower(string(o.reason)))
	}
}

// takeBack lets the nodes stay. Replacements that have begun to run pods stay too.
func (w *World) takeBack(o *order) {
	w.close(o)
	w.meter.TakenBack++
	for _, name := range o.claims {
		w.unmark(name)
	}
	for _, name := range o.replacements {
		claim, ok := w.claims.get(name)
		if !ok {
			continue
		}
		if s := w.seatOf(claim); s == nil || !slices.ContainsFunc(s.units, func(u *unit) bool { return kube.IsReschedulable(u.pod) }) {
			w.deleteClaim(name, "replacement failed")
		}
	}
}
