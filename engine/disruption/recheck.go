package disruption

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
)

// settle keeps an order whose replacements are ready from being finished if a pod would have no place. While other pods
// wait for a machine they may have what was meant for it, so then the order waits for their machines too. A pool with replicas
// has as many machines after as before, and pods that wait may get none but its own: where it is too full its machines could
// never be replaced, so who has a place on them is left open.
func (o *orders) settle(list []Order, ready []int, opt engine.Options, cache *inventory.Cache) {
	if len(ready) == 0 {
		return
	}
	going := map[string]bool{}
	for _, i := range ready {
		for _, name := range list[i].Claims {
			going[name] = true
		}
	}
	t := recheckWithout(o.s, going, opt, cache)
	for _, i := range ready {
		for _, name := range list[i].Claims {
			pod, ok := t.stranded[name]
			if pool := o.pools[o.claims[name].Labels[v1.NodePoolLabelKey]]; !ok || pool != nil && pool.Spec.Replicas != nil {
				continue
			}
			list[i].Step, list[i].Why = OrderRollBack, engine.Reason{Code: engine.PodStranded, Key: kube.PodID(pod).String()}
			if t.others && o.s.Now.Sub(list[i].Decided) <= o.patience() {
				list[i].Step = OrderWait
			}
			break
		}
	}
}

// recheck is what would happen if some machines went now and nothing were started.
type recheck struct {
	// stranded holds, by claim that goes, the first of its pods that would have no place.
	stranded map[string]*corev1.Pod
	// others is true if other pods wait for a machine too, and none is on its way for them.
	others bool
}

// recheckWithout asks where the pods of some claims would go on the machines that are there.
func recheckWithout(s *engine.Snapshot, going map[string]bool, opt engine.Options, cache *inventory.Cache) recheck {
	without := *s
	without.NodePools, without.NodeClaims = nil, slices.Clone(s.NodeClaims)
	now := metav1.NewTime(s.Now)
	for i, c := range without.NodeClaims {
		if going[c.Name] && c.DeletionTimestamp == nil {
			leaving := *c
			leaving.DeletionTimestamp = &now
			without.NodeClaims[i] = &leaving
		}
	}
	p := provisioning.CompileProblem(&without, opt, cache)
	placed := p.PlacedOnMachines()
	out := recheck{stranded: map[string]*corev1.Pod{}}
	from := map[*corev1.Pod]bool{}
	for _, h := range p.Machines {
		if h.Claim == nil || !going[h.Claim.Name] {
			continue
		}
		for _, pod := range p.LeavingPods(h) {
			from[pod] = true
			if !placed[pod] && out.stranded[h.Claim.Name] == nil {
				out.stranded[h.Claim.Name] = pod
			}
		}
	}
	for _, c := range p.Classes {
		out.others = out.others || c.Assigned == nil && slices.ContainsFunc(c.Pods, func(pod *corev1.Pod) bool { return !from[pod] })
	}
	return out
}
