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

// ineligible returns why no method except repair may disrupt the machine now; repair has its own checks. The checks are in the order in which users
// would ask.
func (cs *candidates) ineligible(m *inventory.Machine) engine.Reason {
	pool := m.Pool()
	switch {
	case m.IsRebooting():
		return engine.Reason{Code: engine.Rebooting, NodePool: pool}
	case m.Leaving:
		return engine.Reason{Code: engine.AlreadyLeaving, NodePool: pool}
	case m.Gone && m.Node == nil:
		return m.NodeGone()
	case m.Overdue:
		patience := cs.cache.MachineListOf(cs.s).PatienceFor(m.Start)
		return engine.Reason{Code: engine.MachineLate, NodePool: pool, Need: patience.Round(time.Second).String()}
	case m.Node == nil || !m.IsInitialized():
		return engine.Reason{Code: engine.NotInitialized, NodePool: pool}
	}
	if r := m.OrderRefusal(); !r.OK() {
		return r
	}
	if r := cs.ineligibleByPool(m); !r.OK() {
		return r
	}
	if kube.IsProtected(m.Node) {
		return engine.Reason{Code: engine.DoNotDisrupt, NodePool: pool, Key: "the node"}
	}
	if len(m.Expected) > 0 {
		return engine.Reason{Code: engine.PodsExpected, NodePool: pool, Need: kube.PodID(m.Expected[0]).String()}
	}
	if pod := cs.p.Backoffs.Unwritten[m.MachineInfo]; pod != nil {
		return engine.Reason{Code: engine.PodsExpected, NodePool: pool, Need: kube.PodID(pod).String()}
	}
	return engine.Reason{}
}

// ineligibleByPool returns the reason in the machine's claim or pool that keeps the machine from being disrupted.
func (cs *candidates) ineligibleByPool(m *inventory.Machine) engine.Reason {
	pool := m.Pool()
	if r := cs.ineligibleByNodes(m); !r.OK() {
		return r
	}
	b := cs.budgets[pool]
	switch {
	case pool == "":
		return engine.Reason{Code: engine.NoPoolLabel, Key: v1.NodePoolLabelKey}
	case b == nil:
		return engine.Reason{Code: engine.NodePoolNotFound, NodePool: pool, Need: pool}
	case b.Rules.Pool.DeletionTimestamp != nil:
		return engine.Reason{Code: engine.NodePoolNotReady, NodePool: pool, Have: "it is being deleted"}
	}
	if class := kube.FindClass(cs.s, b.Rules.Pool.Spec.Template.Spec.NodeClassRef); class == nil || len(class.InstanceTypes) == 0 {
		return engine.Reason{Code: engine.NodePoolNotReady, NodePool: pool, Have: "nothing is known of its instance types" + because(class)}
	}
	return b.Rules.Pause()
}

// ineligibleByNodes returns a reason if the machine has several nodes, because the removal of the claim would drain all of them. If a drain would
// evict no pod from any of them, the first initialized node may be removed, and the machine with it.
func (cs *candidates) ineligibleByNodes(m *inventory.Machine) engine.Reason {
	all := cs.nodes[m.Claim]
	if len(all) < 2 {
		return engine.Reason{}
	}
	first := slices.IndexFunc(all, (*inventory.Machine).IsInitialized)
	idle := !slices.ContainsFunc(all, func(o *inventory.Machine) bool { return len(cs.evictees(o)) > 0 })
	if idle && first >= 0 && all[first] == m {
		return engine.Reason{}
	}
	var names []string
	for _, o := range all {
		names = append(names, o.Node.Name)
	}
	return engine.Reason{Code: engine.SeveralNodes, NodePool: m.Pool(), Have: strings.Join(names, ", ")}
}

func because(class *engine.Class) string {
	if class == nil || class.Problem == "" {
		return ""
	}
	return ": " + class.Problem
}

// held returns why pods keep the machine: a gang, a protected pod, or a pod that may not move at this time. If several pods are protected, the reason
// names the one with the longest protection.
func (cs *candidates) held(m *inventory.Machine) engine.Reason {
	if r := cs.breaksGang(m); !r.OK() {
		return r
	}
	if !m.Pods.Annotated {
		return engine.Reason{}
	}
	if pod, until := cs.protector(m); pod != nil {
		r := engine.Reason{Code: engine.DoNotDisrupt, NodePool: m.Pool(), Key: "pod " + kube.PodID(pod).String()}
		if !until.IsZero() {
			r.Have = " until " + engine.ClockText(until)
		}
		return r
	}
	for _, pod := range m.Bound {
		if !kube.IsReschedulable(pod) {
			continue
		}
		if r := budget.WindowOf(cs.s, pod, cs.zoneOf(m)); !r.OK() {
			r.NodePool = m.Pool()
			return r
		}
	}
	return engine.Reason{}
}

// protector returns the pod whose annotation protects the machine longest (nil if there is none) and the time when this protection expires. The time
// is zero if the protection never expires.
func (cs *candidates) protector(m *inventory.Machine) (longest *corev1.Pod, until time.Time) {
	for _, pod := range m.Bound {
		switch p := kube.ProtectionOf(pod, cs.s.Now); {
		case !p.Active:
		case p.Until.IsZero():
			return pod, time.Time{}
		case p.Until.After(until):
			longest, until = pod, p.Until
		}
	}
	return longest, until
}

func (cs *candidates) zoneOf(m *inventory.Machine) *time.Location {
	if b := cs.budgets[m.Pool()]; b != nil {
		return b.Rules.Zone
	}
	return time.UTC
}

// blocked returns a reason if PodDisruptionBudgets do not let all of the machine's pods be evicted now.
func (cs *candidates) blocked(m *inventory.Machine) engine.Reason {
	if len(cs.guards.ByNamespace) == 0 {
		return engine.Reason{}
	}
	r := cs.guards.Allow(cs.evictees(m))
	if !r.OK() {
		r.NodePool = m.Pool()
	}
	return r
}

// hasDeadline reports whether the claim ends a drain after some time even if pods cannot be evicted.
func hasDeadline(m *inventory.Machine) bool { return m.Claim.Spec.TerminationGracePeriod != nil }

// moving returns the machine's pods that need another machine if it is removed, oldest first.
func (cs *candidates) moving(m *inventory.Machine) []*corev1.Pod {
	m.Pods.ReadMovable()
	return m.Pods.Movable
}

// movers is moving, but returns the pods' infos.
func (cs *candidates) movers(m *inventory.Machine) []*inventory.PodInfo {
	m.Pods.ReadMovable()
	return m.Pods.Movers
}

// consolidatable returns why the machine may not be removed to save money, budgets aside: the reason that users would ask for first. If empty is
// false, the machine also has to meet the conditions of underutilizable.
func (cs *candidates) consolidatable(m *inventory.Machine, empty bool) engine.Reason {
	if empty {
		return cs.readConsolidatable(m, true)
	}
	if cs.stays == nil {
		cs.stays = make([]*engine.Reason, len(cs.p.Machines))
	}
	r := cs.stays[m.Number]
	if r == nil { // removeEmpty and consolidate both call consolidatable
		read := cs.readConsolidatable(m, false)
		r = &read
		cs.stays[m.Number] = r
	}
	return *r
}

func (cs *candidates) readConsolidatable(m *inventory.Machine, empty bool) engine.Reason {
	b := cs.budgets[m.Pool()]
	disruption := &b.Rules.Pool.Spec.Disruption
	switch {
	case b.Rules.Pool.Spec.Replicas != nil:
		return engine.Reason{Code: engine.StaticPool, NodePool: m.Pool()}
	case b.Rules.Retired && empty:
		return engine.Reason{}
	case disruption.ConsolidateAfter.Duration == nil:
		return engine.Reason{Code: engine.ConsolidationDisabled, NodePool: m.Pool()}
	}
	if !empty {
		if r := cs.underutilizable(m); !r.OK() {
			return r
		}
	}
	if r := cs.replacedByCloud(m); !r.OK() {
		return r
	}
	if end := cs.quietUntil(m, b.Rules.Pool); cs.s.Now.Before(end) {
		return engine.Reason{Code: engine.ConsolidateAfter, NodePool: m.Pool(), Need: end.UTC().Format(time.RFC3339)}
	}
	return engine.Reason{}
}

// underutilizable returns why a machine with pods may not be consolidated, even if that would save money.
func (cs *candidates) underutilizable(m *inventory.Machine) engine.Reason {
	rules := cs.budgets[m.Pool()].Rules
	if rules.Pool.Spec.Disruption.ConsolidationPolicy == v1.WhenEmpty {
		return engine.Reason{Code: engine.OnlyWhenEmpty, NodePool: m.Pool(), Have: cs.occupants(m)}
	}
	if r := cs.runsGang(m); !r.OK() {
		return r
	}
	if rules.NoMoves {
		return engine.Reason{Code: engine.UnreadableAnnotation, NodePool: m.Pool(), Key: v1.PaybackAnnotationKey,
			Have: rules.Pool.Annotations[v1.PaybackAnnotationKey], Need: "a duration above zero"}
	}
	if m.Lacking != "" {
		return engine.Reason{Code: engine.MissingLabel, NodePool: m.Pool(), Key: m.Lacking}
	}
	if m.Sold == nil {
		return engine.Reason{Code: engine.UnknownInstanceType, NodePool: m.Pool(), Have: m.Labels[corev1.LabelInstanceTypeStable]}
	}
	if cs.price(m) == 0 {
		return engine.Reason{Code: engine.UnknownPrice, NodePool: m.Pool(), Have: inventory.MachineOffering(m.Labels).String()}
	}
	if len(cs.rollouts.Newest) == 0 {
		return engine.Reason{}
	}
	for _, info := range m.Pods.Infos {
		if owner := cs.rollouts.Leaving(info); owner != "" {
			return engine.Reason{Code: engine.RollingOut, NodePool: m.Pool(), Key: owner, Need: kube.PodID(info.Pod).String()}
		}
	}
	return engine.Reason{}
}

// replacedByCloud returns a reason if the cloud's own controllers will replace the machine, or have created it as a replacement, because they would
// create it again.
func (cs *candidates) replacedByCloud(m *inventory.Machine) engine.Reason {
	class := kube.FindClass(cs.s, m.Claim.Spec.NodeClassRef)
	if class == nil {
		return engine.Reason{}
	}
	for _, t := range class.Traits {
		if value, there := kube.TraitOf(m.Claim, t.Key); there && slices.Contains(t.Replacing, value) {
			return engine.Reason{Code: engine.RollingOut, NodePool: m.Pool(), Key: value, Need: "its machines are being replaced"}
		}
	}
	return engine.Reason{}
}

// price returns the machine's price per hour beside commitments. It returns 0 if that price is unknown.
func (cs *candidates) price(m *inventory.Machine) float64 { return m.Price }

// ranked lists the managed machines by price, highest first.
func (cs *candidates) ranked() []*inventory.Machine {
	if cs.order != nil {
		return cs.order
	}
	list := cs.cache.MachineListOf(cs.s)
	numbers := list.DearestFirst()
	if len(cs.s.Commitments) > 0 { // commitments change the prices, and so the order
		numbers = slices.DeleteFunc(slices.Clone(list.InNames()), func(i int) bool { return cs.p.Machines[i].Claim == nil })
		slices.SortStableFunc(numbers, func(a, b int) int { return cmp.Compare(cs.p.Machines[b].Price, cs.p.Machines[a].Price) })
	}
	for _, number := range numbers {
		cs.order = append(cs.order, cs.p.Machines[number])
	}
	return cs.order
}

// quietUntil returns the time when the machine will have been quiet for its pool's consolidateAfter. The quiet begins when the last pod was bound or
// left (the claim may record that) or when the machine was initialized. The time is zero if consolidateAfter is Never or 0.
func (cs *candidates) quietUntil(m *inventory.Machine, pool *v1.NodePool) time.Time {
	after := pool.Spec.Disruption.ConsolidateAfter.Duration
	if after == nil || *after == 0 {
		return time.Time{}
	}
	a := cs.p.Pods.ActivityOn(m.Node.Name)
	a.Lasting, a.Brief = kube.Latest(a.Lasting, m.Claim.Status.LastPodEventTime.Time), kube.Latest(a.Brief, inventory.BriefPodLeft(m.Claim))
	return a.QuietSince(m.Begun, *after).Add(*after)
}

// evictees returns the pods that a drain would evict through the eviction API.
func (cs *candidates) evictees(m *inventory.Machine) (out []*inventory.PodInfo) {
	for _, info := range m.Pods.Infos {
		if !info.Active() || !info.Drainable || info.Guarded && kube.ProtectionOf(info.Pod, cs.s.Now).Active { // an active pod is not stuck
			continue
		}
		out = append(out, info)
	}
	return out
}
