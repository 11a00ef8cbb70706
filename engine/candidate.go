package engine

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// barred says why nobody may disrupt the machine now, whatever for and whatever runs there. The checks are in the order in
// which people would ask.
func (d *disruptor) barred(h *host) Reason {
	pool := h.pool()
	switch {
	case h.isRebooting():
		return Reason{Code: Rebooting, NodePool: pool}
	case h.leaving:
		return Reason{Code: AlreadyLeaving, NodePool: pool}
	case h.gone && h.node == nil:
		return h.nodeGone()
	case h.late:
		patience := d.memo.fleetOf(d.s).patienceFor(h.start)
		return Reason{Code: MachineLate, NodePool: pool, Need: patience.Round(time.Second).String()}
	case h.node == nil || !h.isInitialized():
		return Reason{Code: NotInitialized, NodePool: pool}
	}
	if r := h.orderRefusal(); !r.OK() {
		return r
	}
	if r := d.barredByPool(h); !r.OK() {
		return r
	}
	if h.node.Annotations[v1.DoNotDisruptAnnotationKey] == "true" {
		return Reason{Code: DoNotDisrupt, NodePool: pool, Key: "the node"}
	}
	if len(h.expected) > 0 {
		return Reason{Code: PodsExpected, NodePool: pool, Need: podID(h.expected[0]).String()}
	}
	if pod := d.p.backoffs.unwritten[h.machine]; pod != nil {
		return Reason{Code: PodsExpected, NodePool: pool, Need: podID(pod).String()}
	}
	return Reason{}
}

// barredByPool says what about the machine's claim and pool keeps it from being disrupted.
func (d *disruptor) barredByPool(h *host) Reason {
	pool := h.pool()
	if r := d.barredByNodes(h); !r.OK() {
		return r
	}
	b := d.budgets[pool]
	switch {
	case pool == "":
		return Reason{Code: NoPoolLabel, Key: v1.NodePoolLabelKey}
	case b == nil:
		return Reason{Code: NodePoolNotFound, NodePool: pool, Need: pool}
	case b.rules.pool.DeletionTimestamp != nil:
		return Reason{Code: NodePoolNotReady, NodePool: pool, Have: "it is being deleted"}
	}
	if class := findClass(d.s, b.rules.pool.Spec.Template.Spec.NodeClassRef); class == nil || len(class.InstanceTypes) == 0 {
		return Reason{Code: NodePoolNotReady, NodePool: pool, Have: "nothing is known of its instance types" + because(class)}
	}
	return b.rules.pause()
}

// barredByNodes keeps a machine that has several nodes: removing the claim would drain them all. If no pod would have to leave any
// of them, the machine can go, with the first one that was initialized.
func (d *disruptor) barredByNodes(h *host) Reason {
	all := d.nodes[h.claim]
	if len(all) < 2 {
		return Reason{}
	}
	first := slices.IndexFunc(all, (*host).isInitialized)
	idle := !slices.ContainsFunc(all, func(o *host) bool { return len(d.evictees(o)) > 0 })
	if idle && first >= 0 && all[first] == h {
		return Reason{}
	}
	var names []string
	for _, o := range all {
		names = append(names, o.node.Name)
	}
	return Reason{Code: SeveralNodes, NodePool: h.pool(), Have: strings.Join(names, ", ")}
}

func because(class *Class) string {
	if class == nil || class.Problem == "" {
		return ""
	}
	return ": " + class.Problem
}

// held says which pods keep the machine: one that is protected, or that may not be moved at this time. With several, the one
// that does so for longest.
func (d *disruptor) held(h *host) Reason {
	if !h.roll.annotated {
		return Reason{}
	}
	if pod, until := d.protector(h); pod != nil {
		r := Reason{Code: DoNotDisrupt, NodePool: h.pool(), Key: "pod " + podID(pod).String()}
		if !until.IsZero() {
			r.Have = " until " + clockText(until)
		}
		return r
	}
	for _, pod := range h.bound {
		if !IsReschedulable(pod) {
			continue
		}
		if r := windowOf(d.s, pod, d.zoneOf(h)); !r.OK() {
			r.NodePool = h.pool()
			return r
		}
	}
	return Reason{}
}

// protector is the pod whose annotation keeps the machine, for longest if there are several; nil for none. The time is zero if
// that does not end by itself.
func (d *disruptor) protector(h *host) (longest *corev1.Pod, until time.Time) {
	for _, pod := range h.bound {
		switch p := ProtectionOf(pod, d.s.Now); {
		case !p.Active:
		case p.Until.IsZero():
			return pod, time.Time{}
		case p.Until.After(until):
			longest, until = pod, p.Until
		}
	}
	return longest, until
}

func (d *disruptor) zoneOf(h *host) *time.Location {
	if b := d.budgets[h.pool()]; b != nil {
		return b.rules.zone
	}
	return time.UTC
}

// blocked says which PodDisruptionBudgets keep the machine's pods, all together, from being evicted now.
func (d *disruptor) blocked(h *host) Reason {
	if len(d.guards.byNamespace) == 0 {
		return Reason{}
	}
	r := d.guards.allow(d.evictees(h))
	if !r.OK() {
		r.NodePool = h.pool()
	}
	return r
}

// hasDeadline reports whether pods that cannot be evicted hold the machine for a limited time only, once it is to go.
func hasDeadline(h *host) bool { return h.claim.Spec.TerminationGracePeriod != nil }

// moving are the machine's pods that need another one if it goes, oldest first.
func (d *disruptor) moving(h *host) []*corev1.Pod {
	h.roll.readMovable()
	return h.roll.movable
}

// readMovable finds the pods of the roll that would need another machine.
func (r *roll) readMovable() {
	if r.movableRead {
		return
	}
	r.movableRead = true
	for _, f := range r.facts {
		if IsReschedulable(f.pod) {
			r.movable, r.movers = append(r.movable, f.pod), append(r.movers, f)
		}
	}
}

// movers are the facts of the pods that moving lists.
func (d *disruptor) movers(h *host) []*podFacts {
	h.roll.readMovable()
	return h.roll.movers
}

// consolidatable says why nobody may remove the machine to save money, pods and budgets aside: the first of what people would
// ask. Whether it is empty or not makes a difference in the policy WhenEmpty only.
func (d *disruptor) consolidatable(h *host, empty bool) Reason {
	if empty {
		return d.readConsolidatable(h, true)
	}
	if d.stays == nil {
		d.stays = make([]*Reason, len(d.p.hosts))
	}
	r := d.stays[h.number]
	if r == nil { // two methods ask
		read := d.readConsolidatable(h, false)
		r = &read
		d.stays[h.number] = r
	}
	return *r
}

func (d *disruptor) readConsolidatable(h *host, empty bool) Reason {
	b := d.budgets[h.pool()]
	disruption := &b.rules.pool.Spec.Disruption
	switch {
	case b.rules.pool.Spec.Replicas != nil:
		return Reason{Code: StaticPool, NodePool: h.pool()}
	case b.rules.retired && empty:
		return Reason{}
	case disruption.ConsolidateAfter.Duration == nil:
		return Reason{Code: ConsolidationDisabled, NodePool: h.pool()}
	}
	if !empty {
		if r := d.underutilizable(h); !r.OK() {
			return r
		}
	}
	if end := d.quietUntil(h, b.rules.pool); d.s.Now.Before(end) {
		return Reason{Code: ConsolidateAfter, NodePool: h.pool(), Need: end.UTC().Format(time.RFC3339)}
	}
	return Reason{}
}

// underutilizable says why a machine that runs pods is not consolidated whatever it would save.
func (d *disruptor) underutilizable(h *host) Reason {
	rules := d.budgets[h.pool()].rules
	if rules.pool.Spec.Disruption.ConsolidationPolicy == v1.WhenEmpty {
		return Reason{Code: OnlyWhenEmpty, NodePool: h.pool(), Have: plural(len(d.moving(h)), "pod")}
	}
	if rules.noMoves {
		return Reason{Code: UnreadableAnnotation, NodePool: h.pool(), Key: v1.PaybackAnnotationKey,
			Have: rules.pool.Annotations[v1.PaybackAnnotationKey], Need: "a duration above zero"}
	}
	if h.lacking != "" {
		return Reason{Code: MissingLabel, NodePool: h.pool(), Key: h.lacking}
	}
	if h.sold == nil {
		return Reason{Code: UnknownInstanceType, NodePool: h.pool(), Have: h.labels[corev1.LabelInstanceTypeStable]}
	}
	if d.price(h) == 0 {
		return Reason{Code: UnknownPrice, NodePool: h.pool(), Have: MachineOffering(h.labels).String()}
	}
	if len(d.rollouts.newest) == 0 {
		return Reason{}
	}
	for _, f := range h.roll.facts {
		if owner := d.rollouts.leaving(f); owner != "" {
			return Reason{Code: RollingOut, NodePool: h.pool(), Key: owner, Need: podID(f.pod).String()}
		}
	}
	return Reason{}
}

// price is what the machine costs an hour, 0 if the catalog does not know it.
func (d *disruptor) price(h *host) float64 { return h.price }

// ranked lists the managed machines by what removing them saves, most first.
func (d *disruptor) ranked() []*host {
	if d.order != nil {
		return d.order
	}
	for _, number := range d.memo.fleetOf(d.s).dearestFirst() {
		d.order = append(d.order, d.p.hosts[number])
	}
	return d.order
}
