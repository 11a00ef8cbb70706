package replacement

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
)

// settle decides what ready orders do if a pod of a node would have no place. An order that goes in part keeps the pod's node and drains the others;
// another order is taken back. If other pods wait for a machine, the order waits for that machine too, because these pods may have taken the room
// of its replacements. For nodes of a pool with replicas, settle does not ask whether pods have a place: such a pool has as many machines after as
// before, and a pool that is too full could otherwise never be replaced.
func (o *orders) settle(list []Order, ready []int, opt engine.Options, cache *inventory.Cache) {
	if len(ready) == 0 {
		return
	}
	going := map[string]bool{}
	for _, i := range ready {
		for _, name := range slices.Concat(list[i].Claims, list[i].Starting) {
			going[name] = list[i].Staying[name].OK()
		}
	}
	t := o.recheckAgain(going, opt, cache)
	for _, i := range ready {
		order := &list[i]
		lacking := order.Why // late replacements
		if lacking.OK() && len(order.Gone) > 0 {
			lacking = engine.Reason{Code: engine.ReplacementGone, Need: order.Gone[0]}
		}
		order.Why = engine.Reason{}
		for _, name := range order.Claims {
			pod, ok := t.stranded[name]
			if pool := o.pools[o.claims[name].Labels[v1.NodePoolLabelKey]]; !ok || pool != nil && pool.Spec.Replicas != nil {
				continue
			}
			if order.Why = lacking; lacking.OK() {
				order.Why = engine.Reason{Code: engine.PodStranded, Key: kube.PodID(pod).String()}
			}
			order.stays(name, order.Why)
		}
		switch {
		case order.Why.OK():
		case t.others && o.s.Now.Sub(order.Decided) <= o.patience():
			order.Step = OrderWait
		case !GoesInPart(order.Reason) || len(order.Staying) == len(order.Claims):
			order.Step = OrderRollBack
		default:
			order.Why = engine.Reason{}
		}
	}
}

// recheck describes the effect of removing some machines now without starting any.
type recheck struct {
	// stranded holds, by leaving claim, the first of its pods that would have no place.
	stranded map[string]*corev1.Pod
	// others is true if other pods wait too, and no machine is starting for them.
	others bool
}

// recheckAgain is recheckWithout with an exception: if a claim's last order was taken back recently because a pod would have had no place, and
// its new order goes in part, then a new machine also counts as a place for the claim's pods. Otherwise the order could be taken back again and
// again.
func (o *orders) recheckAgain(going map[string]bool, opt engine.Options, cache *inventory.Cache) recheck {
	again := func(claim string) bool {
		f, failed := failureOf(o.claims[claim])
		mark, _ := inventory.MarkOf(o.claims[claim])
		return failed && f.Alone && o.s.Now.Sub(f.Last) < backoffMemory && GoesInPart(mark.Reason)
	}
	out := o.recheckWithout(going, false, opt, cache)
	if slices.ContainsFunc(slices.Collect(maps.Keys(out.stranded)), again) {
		bought := o.recheckWithout(going, true, opt, cache)
		maps.DeleteFunc(out.stranded, func(name string, _ *corev1.Pod) bool { return again(name) && bought.stranded[name] == nil })
	}
	return out
}

// recheckWithout finds places for the pods of the leaving claims on existing machines, and on new ones if buying.
func (o *orders) recheckWithout(going map[string]bool, buying bool, opt engine.Options, cache *inventory.Cache) recheck {
	without := *o.s
	without.NodeClaims = slices.Clone(o.s.NodeClaims)
	if !buying {
		without.NodePools = nil
	}
	now := metav1.NewTime(o.s.Now)
	for i, c := range without.NodeClaims {
		if going[c.Name] && c.DeletionTimestamp == nil {
			leaving := *c
			leaving.DeletionTimestamp = &now
			without.NodeClaims[i] = &leaving
		}
	}
	p := provisioning.CompileProblem(&without, opt, cache)
	placed := p.Placed()
	out := recheck{stranded: map[string]*corev1.Pod{}}
	from := map[*corev1.Pod]bool{}
	for _, m := range p.Machines {
		if m.Claim == nil || !going[m.Claim.Name] {
			continue
		}
		for _, pod := range p.LeavingPods(m) {
			from[pod] = true
			if !placed[pod] && out.stranded[m.Claim.Name] == nil {
				out.stranded[m.Claim.Name] = pod
			}
		}
	}
	for _, c := range p.Classes {
		out.others = out.others || c.Assigned == nil && slices.ContainsFunc(c.Pods, func(pod *corev1.Pod) bool { return !from[pod] })
	}
	return out
}
