package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/packing"
)

// Disrupt decides which nodes are not worth their price. It reads only s and opt; the same input always gives the same
// Plan. For now it removes nodes that run no pod which would have to move.
func Disrupt(s *Snapshot, opt Options, memo *Memo) *Plan {
	p := compile(s, opt, memo)
	d := &disruptor{
		s: s, p: p, pools: poolsByName(s), types: typeIndex(s), events: podEvents(s),
		nodes: map[*v1.NodeClaim][]string{}, left: map[string]int{},
	}
	d.expect()
	for _, h := range p.hosts {
		if h.node != nil && h.claim != nil {
			d.nodes[h.claim] = append(d.nodes[h.claim], h.node.Name)
		}
	}
	plan := &Plan{}
	for _, h := range d.ranked() {
		r := d.refusal(h)
		if r.OK() {
			r = d.spend(h)
		}
		if !r.OK() {
			plan.Kept = append(plan.Kept, Kept{Node: h.name(), Claim: h.claimName(), Reason: r})
			continue
		}
		plan.Disruptions = append(plan.Disruptions, Disruption{
			Nodes: []string{h.node.Name}, Claims: []string{h.claim.Name},
			Reason: v1.Empty, SavingPerHour: d.price(h),
		})
	}
	slices.SortFunc(plan.Kept, func(a, b Kept) int {
		return cmp.Or(compareBy(a.Node, b.Node, nameBefore), cmp.Compare(a.Claim, b.Claim))
	})
	return plan
}

// disruptor is the state of one Disrupt.
type disruptor struct {
	s        *Snapshot
	p        *problem
	pools    map[string]*v1.NodePool
	types    map[string]*InstanceType
	expected map[*host]*corev1.Pod // a pod that will run on the machine
	events   map[string]time.Time  // by node, when a pod last came or went
	nodes    map[*v1.NodeClaim][]string
	left     map[string]int // what is left of each pool's budgets
}

func poolsByName(s *Snapshot) map[string]*v1.NodePool {
	pools := map[string]*v1.NodePool{}
	for _, p := range s.NodePools {
		pools[p.Name] = p
	}
	return pools
}

// expect finds the machines that pending pods will use; they are not idle, whatever runs there now.
func (d *disruptor) expect() {
	d.expected = map[*host]*corev1.Pod{}
	existing := *d.p.packing
	existing.Pools = nil
	solution := packing.Solve(&existing)
	for i, h := range d.p.targets {
		if shares := solution.OnNodes[i]; len(shares) > 0 {
			d.expected[h] = d.p.classes[shares[0].Class].pods[shares[0].Pods[0]]
		}
	}
}

// ranked orders the managed machines by what removing them saves, most first.
func (d *disruptor) ranked() []*host {
	var out []*host
	for _, h := range d.p.hosts {
		if h.claim != nil {
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, func(a, b *host) int {
		return cmp.Or(cmp.Compare(d.price(b), d.price(a)), compareBy(a.name(), b.name(), nameBefore))
	})
	return out
}

// price is what the machine costs an hour, 0 if the catalog does not know it.
func (d *disruptor) price(h *host) float64 {
	t := d.types[typeKey(h.claim.Spec.NodeClassRef, h.labels[corev1.LabelInstanceTypeStable])]
	if t == nil {
		return 0
	}
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if o.Zone == h.labels[corev1.LabelTopologyZone] && o.CapacityType == h.labels[v1.CapacityTypeLabelKey] {
			return o.Price
		}
	}
	return 0
}

// refusal says why the machine may not be removed as empty, budgets aside.
func (d *disruptor) refusal(h *host) Reason {
	pool := d.pools[h.pool()]
	switch {
	case h.node == nil || !h.isInitialized():
		return Reason{Code: NotInitialized, NodePool: h.pool()}
	case h.leaving:
		return Reason{Code: AlreadyLeaving, NodePool: h.pool()}
	case len(d.nodes[h.claim]) > 1: // removing the claim would drain them all
		return Reason{Code: SeveralNodes, NodePool: h.pool(), Have: strings.Join(d.nodes[h.claim], ", ")}
	case h.node.Annotations[v1.DoNotDisruptAnnotationKey] == "true":
		return Reason{Code: DoNotDisrupt, NodePool: h.pool(), Key: "the node"}
	case pool == nil:
		return Reason{Code: NodePoolNotFound, NodePool: h.pool(), Need: h.pool()}
	case pool.Spec.Replicas != nil:
		return Reason{Code: StaticPool, NodePool: pool.Name}
	case pool.Spec.Disruption.ConsolidateAfter.Duration == nil:
		return Reason{Code: ConsolidationDisabled, NodePool: pool.Name}
	}
	if r := d.podRefusal(h); !r.OK() {
		return r
	}
	if end := d.quietUntil(h, pool); d.s.Now.Before(end) {
		return Reason{Code: ConsolidateAfter, NodePool: pool.Name, Need: end.UTC().Format(time.RFC3339)}
	}
	return Reason{}
}

// podEvents is when a pod last came to each node, ended there or began to.
func podEvents(s *Snapshot) map[string]time.Time {
	events := map[string]time.Time{}
	for _, pod := range s.Pods {
		if pod.Spec.NodeName == "" || OwnedByDaemonSet(pod) {
			continue
		}
		if t := podEvent(pod); !t.After(s.Now) {
			events[pod.Spec.NodeName] = latest(events[pod.Spec.NodeName], t)
		}
	}
	return events
}

// podRefusal says which pods keep the machine: one that is protected, those that would have to move, one that is
// expected, or one that a budget keeps from being evicted now.
func (d *disruptor) podRefusal(h *host) Reason {
	moving := 0
	for _, pod := range h.bound {
		if ProtectionOf(pod, d.s.Now).Active {
			return Reason{Code: DoNotDisrupt, NodePool: h.pool(), Key: "pod " + podID(pod).String()}
		}
		if IsReschedulable(pod) {
			moving++
		}
	}
	if moving > 0 {
		return Reason{Code: NotEmpty, NodePool: h.pool(), Have: plural(moving, "pod")}
	}
	if pod := d.expected[h]; pod != nil {
		return Reason{Code: PodsExpected, NodePool: h.pool(), Need: podID(pod).String()}
	}
	for _, pod := range h.bound { // those that a drain would have to send away all the same
		if isActive(pod) && IsDrainable(pod, d.s.Now) && !evictable(pod, d.s.PodDisruptionBudgets) {
			return Reason{Code: EvictionBlocked, NodePool: h.pool(), Key: podID(pod).String()}
		}
	}
	return Reason{}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// spend takes one node off what the pool's budgets allow.
func (d *disruptor) spend(h *host) Reason {
	pool := d.pools[h.pool()]
	left, known := d.left[pool.Name]
	if !known {
		a := allowance(d.s.Now, pool, v1.Empty, d.p.hosts)
		if a.Problem != "" {
			return Reason{Code: BudgetExhausted, NodePool: pool.Name, Have: "nothing: " + a.Problem}
		}
		left = a.Left()
	}
	if left <= 0 {
		d.left[pool.Name] = 0
		return Reason{Code: BudgetExhausted, NodePool: pool.Name, Have: "no more node now"}
	}
	d.left[pool.Name] = left - 1
	return Reason{}
}

// quietUntil is when the machine will have been quiet for its pool's consolidateAfter: since the last pod came or went,
// recorded on the claim or not, or since it was initialized. It is the zero time if consolidateAfter is Never or 0.
func (d *disruptor) quietUntil(h *host, pool *v1.NodePool) time.Time {
	after := pool.Spec.Disruption.ConsolidateAfter.Duration
	if after == nil || *after == 0 {
		return time.Time{}
	}
	since := latest(h.claim.Status.LastPodEventTime.Time, d.events[h.node.Name])
	if since.IsZero() {
		if c := v1.GetCondition(h.claim, v1.ConditionInitialized); c != nil && c.Status == metav1.ConditionTrue {
			since = c.LastTransitionTime.Time
		}
	}
	if since.IsZero() {
		since = h.claim.CreationTimestamp.Time
	}
	return since.Add(*after)
}
