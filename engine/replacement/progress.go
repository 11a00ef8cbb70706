package replacement

import (
	"math"
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

// orders are the disruptions with replacements that are in progress.
type orders struct {
	s      *engine.Snapshot
	guards *budget.Guards // nil until first used
	claims map[string]*v1.NodeClaim
	nodes  map[string]*corev1.Node // by provider ID; the first by name
	pools  map[string]*v1.NodePool
	list   []*inventory.InProgress // the oldest first
	// replacing holds the orders by the names of their replacements.
	replacing map[string]*inventory.InProgress
}

// ordersOf collects the orders of a snapshot.
func ordersOf(s *engine.Snapshot) *orders {
	o := &orders{s: s, claims: map[string]*v1.NodeClaim{}, replacing: map[string]*inventory.InProgress{}}
	if !slices.ContainsFunc(s.NodeClaims, inventory.HasPartInDisruption) {
		return o
	}
	for _, c := range s.NodeClaims {
		o.claims[c.Name] = c
	}
	if o.list = inventory.DisruptionsInProgress(s); len(o.list) == 0 {
		return o
	}
	for _, x := range o.list {
		for _, name := range x.Replacements {
			o.replacing[name] = x
		}
	}
	o.find()
	return o
}

// find finds nodes and pools.
func (o *orders) find() {
	o.nodes, o.pools = map[string]*corev1.Node{}, kube.PoolsByName(o.s)
	for _, n := range o.s.Nodes {
		id := n.Spec.ProviderID
		if other := o.nodes[id]; id != "" && (other == nil || n.Name < other.Name) {
			o.nodes[id] = n
		}
	}
}

func (o *orders) nodeOf(claim *v1.NodeClaim) *corev1.Node { return o.nodes[claim.Status.ProviderID] }

// The time for which an order waits for its replacements: orderPatience for each claim to remove in all orders, within bounds.
const (
	orderPatience = 80 * time.Millisecond
	orderShortest = 10 * time.Minute
	orderLongest  = time.Hour
)

// OrderStep is the next action for an order.
type OrderStep string

const (
	// OrderWait means that new pods are kept off the nodes, and nothing else.
	OrderWait OrderStep = "Wait"
	// OrderFinish means that the claims go now, provided that no new pod has come since the snapshot.
	OrderFinish OrderStep = "Finish"
	// OrderRollBack means that the nodes stay.
	OrderRollBack OrderStep = "RollBack"
)

// Order is a disruption with replacements that is in progress.
type Order struct {
	ID      string
	Reason  v1.DisruptionReason
	Decided time.Time
	// Claims and Nodes list the claims that are still to be removed and their nodes, in the same order. The name of a vanished node is empty.
	Claims, Nodes []string
	// Staying maps the claims that stay to their reasons. It holds some claims if Step is Finish, all if Step is RollBack, and none if Step is Wait.
	Staying map[string]engine.Reason
	// Replacements are the new claims. Starting are the replacements that are not ready, Gone the replacements that were deleted.
	Replacements, Starting, Gone []string
	Step                         OrderStep
	// Why is the reason why the order waits, or why it is taken back.
	Why engine.Reason
	// Surrender lists the replacements to delete if the order is taken back: nothing runs on them.
	Surrender []string
	// Pods counts the pods that have to move.
	Pods int
	// DrainWithin is how long the drains may take; nil leaves it to the claims.
	DrainWithin *time.Duration
}

// Going lists the claims that the order deletes if its step is Finish.
func (o *Order) Going() []string {
	return slices.DeleteFunc(slices.Clone(o.Claims), func(name string) bool { return !o.Staying[name].OK() })
}

// stays records that the claim stays.
func (o *Order) stays(claim string, why engine.Reason) {
	if o.Staying == nil {
		o.Staying = map[string]engine.Reason{}
	}
	o.Staying[claim] = why
}

// Progress decides how disruptions with replacements continue, the oldest first. It reads only its arguments: the claims hold all data of an order,
// so any process can continue it. A replacement that belongs to no order any more, and is not ready, is an order of its own that is taken back.
func Progress(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache) []Order {
	o := ordersOf(s)
	limit := o.patience()
	pods := o.podsByNode()
	var out []Order
	var ready []int
	for _, x := range o.list {
		order := o.describe(x, pods)
		order.Why = o.objection(x, &order, pods)
		late := s.Now.Sub(x.Decided) > limit
		switch {
		case isOverdue(x, order.Why, s.Now), x.Reason == v1.Unhealthy && order.Why.OK() && len(order.Starting) == 0:
			order.Step, order.Why = OrderFinish, engine.Reason{}
		case !order.Why.OK():
			order.Step = OrderRollBack
		case len(order.Starting) == 0:
			order.Step = OrderFinish
			ready = append(ready, len(out))
		case !late:
			order.Step, order.Why = OrderWait, awaiting(order.Starting)
		default:
			order.Step, order.Why = OrderRollBack, engine.Reason{Code: engine.ReplacementLate, Key: strings.Join(order.Starting, ", "), Need: limit.String()}
			if GoesInPart(x.Reason) {
				order.Step = OrderFinish
				ready = append(ready, len(out))
			}
		}
		out = append(out, order)
	}
	ready = slices.DeleteFunc(ready, func(i int) bool { return waitsForItsPass(&out[i], out) })
	o.settle(out, ready, opt, cache)
	for i := range out {
		order := &out[i]
		switch {
		case order.Step == OrderWait:
			order.Staying = nil
		case order.Step == OrderRollBack:
			for _, name := range order.Claims {
				if order.Staying[name].OK() {
					order.stays(name, order.Why)
				}
			}
			order.Surrender = o.affordable(order, o.idle(order.Replacements, pods))
		case GoesInPart(order.Reason): // late replacements
			order.Surrender = o.idle(order.Starting, pods)
		}
	}
	return append(out, o.orphanedReplacements()...)
}

// GoesInPart reports whether an order for the reason may remove some of its nodes and keep the others. A drifted or expired node is removed
// because of its own state. A consolidation saves money only as a whole.
func GoesInPart(reason v1.DisruptionReason) bool {
	return reason == v1.Drifted || reason == v1.Expired
}

// waitsForItsPass makes a ready order wait until the replacements of all orders of the same pass and reason are ready. These orders drain their
// nodes together, because pods of one order can run on the machines of another, and pods that spread over zones count one another.
func waitsForItsPass(order *Order, list []Order) bool {
	if !GoesInPart(order.Reason) {
		return false
	}
	for i := range list {
		if other := &list[i]; other.Step == OrderWait && len(other.Starting) > 0 && other.Reason == order.Reason && other.Decided.Equal(order.Decided) {
			order.Step, order.Why = OrderWait, awaiting(other.Starting)
			return true
		}
	}
	return false
}

func awaiting(replacements []string) engine.Reason {
	return engine.Reason{Code: engine.AwaitingReplacements, Key: strings.Join(replacements, ", ")}
}

// patience returns how long an order may take. The time grows with the number of claims that all orders remove.
func (o *orders) patience() time.Duration {
	n := 0
	for _, x := range o.list {
		n += len(x.Leaving)
	}
	return patienceFor(n)
}

func patienceFor(claims int) time.Duration {
	return min(max(time.Duration(claims)*orderPatience, orderShortest), orderLongest)
}

// isOverdue reports whether a broken machine goes although its replacements are not ready: they failed, or the time of its drain has passed.
func isOverdue(x *inventory.InProgress, objection engine.Reason, now time.Time) bool {
	if x.Reason != v1.Unhealthy {
		return false
	}
	return objection.Code == engine.ReplacementGone || objection.OK() && (x.DrainWithin == nil || now.Sub(x.Decided) >= x.DrainWithin.Duration)
}

// podsByNode lists the pods of the leaving nodes and of the replacements.
func (o *orders) podsByNode() map[string][]*corev1.Pod {
	pods := map[string][]*corev1.Pod{}
	note := func(claim *v1.NodeClaim) {
		if claim != nil && o.nodeOf(claim) != nil {
			pods[o.nodeOf(claim).Name] = nil
		}
	}
	for _, x := range o.list {
		for _, c := range x.Leaving {
			note(c)
		}
		for _, name := range x.Replacements {
			note(o.claims[name])
		}
	}
	if len(pods) == 0 {
		return pods
	}
	for _, p := range o.s.Pods {
		if list, ok := pods[p.Spec.NodeName]; ok && !kube.IsTerminal(p) {
			pods[p.Spec.NodeName] = append(list, p)
		}
	}
	for _, list := range pods {
		slices.SortFunc(list, kube.OlderFirst)
	}
	return pods
}

func (o *orders) describe(x *inventory.InProgress, pods map[string][]*corev1.Pod) Order {
	out := Order{ID: x.ID, Reason: x.Reason, Decided: x.Decided, Replacements: x.Replacements}
	if x.DrainWithin != nil {
		out.DrainWithin = &x.DrainWithin.Duration
	}
	for _, c := range x.Leaving {
		out.Claims = append(out.Claims, c.Name)
		name := ""
		if n := o.nodeOf(c); n != nil {
			name = n.Name
		}
		out.Nodes = append(out.Nodes, name)
		for _, p := range pods[name] {
			if kube.IsReschedulable(p) {
				out.Pods++
			}
		}
	}
	for _, name := range x.Replacements {
		switch c := o.claims[name]; {
		case c == nil || c.DeletionTimestamp != nil:
			out.Gone = append(out.Gone, name)
		case !o.isReady(c):
			out.Starting = append(out.Starting, name)
		}
	}
	return out
}

// isReady reports whether pods can run on the claim's machine now.
func (o *orders) isReady(claim *v1.NodeClaim) bool {
	if claim == nil || !v1.IsTrue(claim, v1.ConditionInitialized) {
		return false
	}
	n := o.nodeOf(claim)
	return n != nil && kube.NodeReady(n)
}

// objection returns why the order cannot continue, the zero Reason if it can. It fills in Staying.
func (o *orders) objection(x *inventory.InProgress, order *Order, pods map[string][]*corev1.Pod) engine.Reason {
	if x.Reason == "" {
		return engine.Reason{Code: engine.OrderBroken, Key: x.Claims[0], Have: "its annotation " + inventory.DisruptionAnnotation + " cannot be read"}
	}
	for _, name := range x.Claims {
		c := o.claims[name]
		if c != nil && c.DeletionTimestamp == nil && !slices.Contains(x.Leaving, c) {
			return engine.Reason{Code: engine.OrderBroken, Key: name, Have: "it is not marked"}
		}
	}
	if len(order.Gone) == len(x.Replacements) || len(order.Gone) > 0 && !GoesInPart(x.Reason) {
		return engine.Reason{Code: engine.ReplacementGone, Need: order.Gone[0]}
	}
	for _, c := range x.Leaving {
		r := o.veto(x, c, pods)
		if r.OK() {
			continue
		}
		if order.stays(c.Name, r); !GoesInPart(x.Reason) || len(order.Staying) == len(x.Leaving) {
			return r
		}
	}
	return engine.Reason{}
}

// veto returns a reason to keep the node that has come up since the decision.
func (o *orders) veto(x *inventory.InProgress, c *v1.NodeClaim, pods map[string][]*corev1.Pod) engine.Reason {
	pool := c.Labels[v1.NodePoolLabelKey]
	node := o.nodeOf(c)
	switch {
	case o.pools[pool] == nil:
		return engine.Reason{Code: engine.NodePoolNotFound, NodePool: pool, Need: pool}
	case node == nil:
		return engine.Reason{}
	case x.Reason == v1.Unhealthy:
		if node.Annotations[v1.DoNotRepairAnnotationKey] == "true" {
			return engine.Reason{Code: engine.DoNotRepair, NodePool: pool}
		}
		return engine.Reason{}
	case kube.IsProtected(node):
		return engine.Reason{Code: engine.DoNotDisrupt, NodePool: pool, Key: "the node"}
	case x.Reason == v1.Drifted && c.Spec.TerminationGracePeriod != nil: // its pods cannot keep it beyond that period
		return engine.Reason{}
	}
	for _, p := range pods[node.Name] {
		switch {
		case kube.ProtectionOf(p, o.s.Now).Active:
			return engine.Reason{Code: engine.DoNotDisrupt, NodePool: pool, Key: "pod " + kube.PodID(p).String()}
		case kube.IsReschedulable(p) && kube.IsActive(p) && o.neverEvicted(p):
			return engine.Reason{Code: engine.EvictionBlocked, NodePool: pool, Key: kube.PodID(p).String(), Have: "none of them ever allows it"}
		}
	}
	return engine.Reason{}
}

// neverEvicted reports whether no eviction of the pod can ever be allowed.
func (o *orders) neverEvicted(pod *corev1.Pod) bool {
	if o.guards == nil {
		o.guards = budget.NewGuards(o.s, nil)
	}
	return o.guards.NeverAllow(pod)
}

// idle lists the claims whose machine has no node, and those whose node no pod needs: no pod there would need another place, and none is nominated to
// it.
func (o *orders) idle(names []string, pods map[string][]*corev1.Pod) []string {
	var out []string
	for _, name := range names {
		c := o.claims[name]
		if c == nil || c.DeletionTimestamp != nil {
			continue
		}
		if n := o.nodeOf(c); n != nil && (slices.ContainsFunc(pods[n.Name], kube.IsReschedulable) || o.isNominated(n.Name)) {
			continue
		}
		out = append(out, name)
	}
	return out
}

// affordable leaves out initialized replacements whose deletion would exceed the budgets of their pools. These replacements stay as ordinary nodes.
// The order's own nodes no longer count against the budgets.
func (o *orders) affordable(order *Order, names []string) []string {
	left := map[string]int{}
	return slices.DeleteFunc(names, func(name string) bool {
		c := o.claims[name]
		pool := o.pools[c.Labels[v1.NodePoolLabelKey]]
		if pool == nil || !v1.IsTrue(c, v1.ConditionInitialized) {
			return false
		}
		n, known := left[pool.Name]
		if !known {
			a := budget.PoolAllowance(o.s, pool, order.Reason)
			n = min(a.Allowed, math.MaxInt32) - a.Disrupting
			for _, own := range order.Claims {
				if c := o.claims[own]; c != nil && c.Labels[v1.NodePoolLabelKey] == pool.Name && c.DeletionTimestamp == nil {
					n++
				}
			}
		}
		left[pool.Name] = n - 1
		return n <= 0
	})
}

// Beside leaves out wanted disruptions of pools in which orders give up nodes now, because their decision did not count these nodes against the
// budgets. The next pass decides again.
func Beside(s *engine.Snapshot, list []Order, wanted []engine.Disruption) []engine.Disruption {
	var names []string
	for i := range list {
		names = append(names, list[i].Surrender...)
	}
	if len(names) == 0 {
		return wanted
	}
	poolOf, busy := map[string]string{}, map[string]bool{}
	for _, c := range s.NodeClaims {
		pool := c.Labels[v1.NodePoolLabelKey]
		poolOf[c.Name] = pool
		if slices.Contains(names, c.Name) && v1.IsTrue(c, v1.ConditionInitialized) {
			busy[pool] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(wanted), func(d engine.Disruption) bool {
		return slices.ContainsFunc(d.Claims, func(name string) bool { return busy[poolOf[name]] })
	})
}

func (o *orders) isNominated(node string) bool {
	return slices.ContainsFunc(o.s.Pods, func(p *corev1.Pod) bool {
		return p.Spec.NodeName == "" && p.Status.NominatedNodeName == node && kube.IsActive(p)
	})
}

// orphanedReplacements returns replacements that are not ready and belong to no order any more, although the replaced claims stay: the order was
// taken back, but the deletion of its replacements failed. A ready one is an ordinary machine.
func (o *orders) orphanedReplacements() []Order {
	var out []Order
	for _, c := range o.s.NodeClaims {
		r, ok := inventory.ReplacesOf(c)
		if !ok || o.replacing[c.Name] != nil || c.DeletionTimestamp != nil || v1.IsTrue(c, v1.ConditionInitialized) {
			continue
		}
		if slices.ContainsFunc(r.Claims, o.stays) {
			out = append(out, Order{
				ID: r.ID, Decided: c.CreationTimestamp.Time, Replacements: []string{c.Name}, Starting: []string{c.Name},
				Step: OrderRollBack, Why: engine.Reason{Code: engine.OrderBroken, Key: c.Name, Have: "nothing is replaced by it any more"}, Surrender: []string{c.Name},
			})
		}
	}
	slices.SortFunc(out, func(a, b Order) int { return strings.Compare(a.Replacements[0], b.Replacements[0]) })
	return out
}

// stays reports whether the claim exists and is not being deleted.
func (o *orders) stays(name string) bool {
	c := o.claims[name]
	return c != nil && c.DeletionTimestamp == nil
}
