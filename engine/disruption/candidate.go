package disruption

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// ineligible says why nobody may disrupt the machine now, whatever for and whatever runs there. The checks are in the order in
// which people would ask.
func (d *planner) ineligible(h *inventory.Machine) engine.Reason {
	pool := h.Pool()
	switch {
	case h.IsRebooting():
		return engine.Reason{Code: engine.Rebooting, NodePool: pool}
	case h.Leaving:
		return engine.Reason{Code: engine.AlreadyLeaving, NodePool: pool}
	case h.Gone && h.Node == nil:
		return h.NodeGone()
	case h.Overdue:
		patience := d.cache.MachineListOf(d.s).PatienceFor(h.Start)
		return engine.Reason{Code: engine.MachineLate, NodePool: pool, Need: patience.Round(time.Second).String()}
	case h.Node == nil || !h.IsInitialized():
		return engine.Reason{Code: engine.NotInitialized, NodePool: pool}
	}
	if r := h.OrderRefusal(); !r.OK() {
		return r
	}
	if r := d.ineligibleByPool(h); !r.OK() {
		return r
	}
	if kube.IsProtected(h.Node) {
		return engine.Reason{Code: engine.DoNotDisrupt, NodePool: pool, Key: "the node"}
	}
	if len(h.Expected) > 0 {
		return engine.Reason{Code: engine.PodsExpected, NodePool: pool, Need: kube.PodID(h.Expected[0]).String()}
	}
	if pod := d.p.Backoffs.Unwritten[h.MachineInfo]; pod != nil {
		return engine.Reason{Code: engine.PodsExpected, NodePool: pool, Need: kube.PodID(pod).String()}
	}
	return engine.Reason{}
}

// ineligibleByPool says what about the machine's claim and pool keeps it from being disrupted.
func (d *planner) ineligibleByPool(h *inventory.Machine) engine.Reason {
	pool := h.Pool()
	if r := d.ineligibleByNodes(h); !r.OK() {
		return r
	}
	b := d.budgets[pool]
	switch {
	case pool == "":
		return engine.Reason{Code: engine.NoPoolLabel, Key: v1.NodePoolLabelKey}
	case b == nil:
		return engine.Reason{Code: engine.NodePoolNotFound, NodePool: pool, Need: pool}
	case b.Rules.Pool.DeletionTimestamp != nil:
		return engine.Reason{Code: engine.NodePoolNotReady, NodePool: pool, Have: "it is being deleted"}
	}
	if class := kube.FindClass(d.s, b.Rules.Pool.Spec.Template.Spec.NodeClassRef); class == nil || len(class.InstanceTypes) == 0 {
		return engine.Reason{Code: engine.NodePoolNotReady, NodePool: pool, Have: "nothing is known of its instance types" + because(class)}
	}
	return b.Rules.Pause()
}

// ineligibleByNodes keeps a machine that has several nodes: removing the claim would drain them all. If no pod would have to leave any
// of them, the machine can go, with the first one that was initialized.
func (d *planner) ineligibleByNodes(h *inventory.Machine) engine.Reason {
	all := d.nodes[h.Claim]
	if len(all) < 2 {
		return engine.Reason{}
	}
	first := slices.IndexFunc(all, (*inventory.Machine).IsInitialized)
	idle := !slices.ContainsFunc(all, func(o *inventory.Machine) bool { return len(d.evictees(o)) > 0 })
	if idle && first >= 0 && all[first] == h {
		return engine.Reason{}
	}
	var names []string
	for _, o := range all {
		names = append(names, o.Node.Name)
	}
	return engine.Reason{Code: engine.SeveralNodes, NodePool: h.Pool(), Have: strings.Join(names, ", ")}
}

func because(class *engine.Class) string {
	if class == nil || class.Problem == "" {
		return ""
	}
	return ": " + class.Problem
}

// held says which pods keep the machine: those of a gang, one that is protected, or that may not be moved at this time. With several, the one
// that does so for longest.
func (d *planner) held(h *inventory.Machine) engine.Reason {
	if r := d.breaksGang(h); !r.OK() {
		return r
	}
	if !h.Pods.Annotated {
		return engine.Reason{}
	}
	if pod, until := d.protector(h); pod != nil {
		r := engine.Reason{Code: engine.DoNotDisrupt, NodePool: h.Pool(), Key: "pod " + kube.PodID(pod).String()}
		if !until.IsZero() {
			r.Have = " until " + engine.ClockText(until)
		}
		return r
	}
	for _, pod := range h.Bound {
		if !kube.IsReschedulable(pod) {
			continue
		}
		if r := budget.WindowOf(d.s, pod, d.zoneOf(h)); !r.OK() {
			r.NodePool = h.Pool()
			return r
		}
	}
	return engine.Reason{}
}

// protector is the pod whose annotation keeps the machine, for longest if there are several; nil for none. The time is zero if
// that does not end by itself.
func (d *planner) protector(h *inventory.Machine) (longest *corev1.Pod, until time.Time) {
	for _, pod := range h.Bound {
		switch p := kube.ProtectionOf(pod, d.s.Now); {
		case !p.Active:
		case p.Until.IsZero():
			return pod, time.Time{}
		case p.Until.After(until):
			longest, until = pod, p.Until
		}
	}
	return longest, until
}

func (d *planner) zoneOf(h *inventory.Machine) *time.Location {
	if b := d.budgets[h.Pool()]; b != nil {
		return b.Rules.Zone
	}
	return time.UTC
}

// blocked says which PodDisruptionBudgets keep the machine's pods, all together, from being evicted now.
func (d *planner) blocked(h *inventory.Machine) engine.Reason {
	if len(d.guards.ByNamespace) == 0 {
		return engine.Reason{}
	}
	r := d.guards.Allow(d.evictees(h))
	if !r.OK() {
		r.NodePool = h.Pool()
	}
	return r
}

// hasDeadline reports whether pods that cannot be evicted hold the machine for a limited time only, once it is to go.
func hasDeadline(h *inventory.Machine) bool { return h.Claim.Spec.TerminationGracePeriod != nil }

// moving are the machine's pods that need another one if it goes, oldest first.
func (d *planner) moving(h *inventory.Machine) []*corev1.Pod {
	h.Pods.ReadMovable()
	return h.Pods.Movable
}

// movers are the infos of the pods that moving lists.
func (d *planner) movers(h *inventory.Machine) []*inventory.PodInfo {
	h.Pods.ReadMovable()
	return h.Pods.Movers
}

// consolidatable says why nobody may remove the machine to save money, pods and budgets aside: the first of what people would
// ask. Whether it is empty or not makes a difference in the policy WhenEmpty only.
func (d *planner) consolidatable(h *inventory.Machine, empty bool) engine.Reason {
	if empty {
		return d.readConsolidatable(h, true)
	}
	if d.stays == nil {
		d.stays = make([]*engine.Reason, len(d.p.Machines))
	}
	r := d.stays[h.Number]
	if r == nil { // two methods ask
		read := d.readConsolidatable(h, false)
		r = &read
		d.stays[h.Number] = r
	}
	return *r
}

func (d *planner) readConsolidatable(h *inventory.Machine, empty bool) engine.Reason {
	b := d.budgets[h.Pool()]
	disruption := &b.Rules.Pool.Spec.Disruption
	switch {
	case b.Rules.Pool.Spec.Replicas != nil:
		return engine.Reason{Code: engine.StaticPool, NodePool: h.Pool()}
	case b.Rules.Retired && empty:
		return engine.Reason{}
	case disruption.ConsolidateAfter.Duration == nil:
		return engine.Reason{Code: engine.ConsolidationDisabled, NodePool: h.Pool()}
	}
	if !empty {
		if r := d.underutilizable(h); !r.OK() {
			return r
		}
	}
	if r := d.replacedByCloud(h); !r.OK() {
		return r
	}
	if end := d.quietUntil(h, b.Rules.Pool); d.s.Now.Before(end) {
		return engine.Reason{Code: engine.ConsolidateAfter, NodePool: h.Pool(), Need: end.UTC().Format(time.RFC3339)}
	}
	return engine.Reason{}
}

// underutilizable says why a machine that runs pods is not consolidated whatever it would save.
func (d *planner) underutilizable(h *inventory.Machine) engine.Reason {
	rules := d.budgets[h.Pool()].Rules
	if rules.Pool.Spec.Disruption.ConsolidationPolicy == v1.WhenEmpty {
		return engine.Reason{Code: engine.OnlyWhenEmpty, NodePool: h.Pool(), Have: d.occupants(h)}
	}
	if r := d.runsGang(h); !r.OK() {
		return r
	}
	if rules.NoMoves {
		return engine.Reason{Code: engine.UnreadableAnnotation, NodePool: h.Pool(), Key: v1.PaybackAnnotationKey,
			Have: rules.Pool.Annotations[v1.PaybackAnnotationKey], Need: "a duration above zero"}
	}
	if h.Lacking != "" {
		return engine.Reason{Code: engine.MissingLabel, NodePool: h.Pool(), Key: h.Lacking}
	}
	if h.Sold == nil {
		return engine.Reason{Code: engine.UnknownInstanceType, NodePool: h.Pool(), Have: h.Labels[corev1.LabelInstanceTypeStable]}
	}
	if d.price(h) == 0 {
		return engine.Reason{Code: engine.UnknownPrice, NodePool: h.Pool(), Have: inventory.MachineOffering(h.Labels).String()}
	}
	if len(d.rollouts.Newest) == 0 {
		return engine.Reason{}
	}
	for _, f := range h.Pods.Infos {
		if owner := d.rollouts.Leaving(f); owner != "" {
			return engine.Reason{Code: engine.RollingOut, NodePool: h.Pool(), Key: owner, Need: kube.PodID(f.Pod).String()}
		}
	}
	return engine.Reason{}
}

// replacedByCloud keeps a machine that its cloud's own controllers are about to replace, and those that they have made for that:
// whatever is taken away now is made again.
func (d *planner) replacedByCloud(h *inventory.Machine) engine.Reason {
	class := kube.FindClass(d.s, h.Claim.Spec.NodeClassRef)
	if class == nil {
		return engine.Reason{}
	}
	for _, t := range class.Traits {
		if value, there := kube.TraitOf(h.Claim, t.Key); there && slices.Contains(t.Replacing, value) {
			return engine.Reason{Code: engine.RollingOut, NodePool: h.Pool(), Key: value, Need: "its machines are being replaced"}
		}
	}
	return engine.Reason{}
}

// price is what the machine costs an hour beside commitments, 0 if the catalog does not know it.
func (d *planner) price(h *inventory.Machine) float64 { return h.Price }

// ranked lists the managed machines by what removing them saves, most first.
func (d *planner) ranked() []*inventory.Machine {
	if d.order != nil {
		return d.order
	}
	list := d.cache.MachineListOf(d.s)
	numbers := list.DearestFirst()
	if len(d.s.Commitments) > 0 { // these make others the dearest
		numbers = slices.DeleteFunc(slices.Clone(list.InNames()), func(i int) bool { return d.p.Machines[i].Claim == nil })
		slices.SortStableFunc(numbers, func(a, b int) int { return cmp.Compare(d.p.Machines[b].Price, d.p.Machines[a].Price) })
	}
	for _, number := range numbers {
		d.order = append(d.order, d.p.Machines[number])
	}
	return d.order
}

// quietUntil is when the machine will have been quiet for its pool's consolidateAfter: since the last pod came or went,
// recorded on the claim or not, or since it was initialized. It is the zero time if consolidateAfter is Never or 0.
func (d *planner) quietUntil(h *inventory.Machine, pool *v1.NodePool) time.Time {
	after := pool.Spec.Disruption.ConsolidateAfter.Duration
	if after == nil || *after == 0 {
		return time.Time{}
	}
	a := d.p.Pods.ActivityOn(h.Node.Name)
	a.Lasting, a.Brief = kube.Latest(a.Lasting, h.Claim.Status.LastPodEventTime.Time), kube.Latest(a.Brief, inventory.BriefPodLeft(h.Claim))
	return a.QuietSince(h.Begun, *after).Add(*after)
}
