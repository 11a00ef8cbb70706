package engine

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/packing"
)

// settle keeps an order whose replacements are ready from being finished if a pod would have no place. While other pods
// wait for a machine they may have what was meant for it, so then the order waits for their machines too. A pool with replicas
// has as many machines after as before, and pods that wait may get none but its own: where it is too full its machines could
// never be replaced, so who has a place on them is left open.
func (o *orders) settle(list []Order, ready []int, opt Options, memo *Memo) {
	if len(ready) == 0 {
		return
	}
	going := map[string]bool{}
	for _, i := range ready {
		for _, name := range list[i].Claims {
			going[name] = true
		}
	}
	t := tryWithout(o.s, going, opt, memo)
	for _, i := range ready {
		for _, name := range list[i].Claims {
			pod, ok := t.stranded[name]
			if pool := o.pools[o.claims[name].Labels[v1.NodePoolLabelKey]]; !ok || pool != nil && pool.Spec.Replicas != nil {
				continue
			}
			list[i].Step, list[i].Why = OrderRollBack, Reason{Code: PodStranded, Key: podID(pod).String()}
			if t.others && o.s.Now.Sub(list[i].Decided) <= o.patience() {
				list[i].Step = OrderWait
			}
			break
		}
	}
}

// departure is what would happen if some machines went now and nothing were started.
type departure struct {
	// stranded holds, by claim that goes, the first of its pods that would have no place.
	stranded map[string]*corev1.Pod
	// others is true if other pods wait for a machine too, and none is on its way for them.
	others bool
}

// tryWithout asks where the pods of some claims would go on the machines that are there.
func tryWithout(s *Snapshot, going map[string]bool, opt Options, memo *Memo) departure {
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
	p := compile(&without, opt, memo)
	placed := p.placedOnHosts()
	out := departure{stranded: map[string]*corev1.Pod{}}
	from := map[*corev1.Pod]bool{}
	for _, h := range p.hosts {
		if h.claim == nil || !going[h.claim.Name] {
			continue
		}
		for _, pod := range p.leavingPods(h) {
			from[pod] = true
			if !placed[pod] && out.stranded[h.claim.Name] == nil {
				out.stranded[h.claim.Name] = pod
			}
		}
	}
	for _, c := range p.classes {
		out.others = out.others || c.home == nil && slices.ContainsFunc(c.pods, func(pod *corev1.Pod) bool { return !from[pod] })
	}
	return out
}

// placedOnHosts solves the problem without new machines and says which pods find a place.
func (p *problem) placedOnHosts() map[*corev1.Pod]bool {
	existing := *p.packing
	existing.Pools = nil
	placed := map[*corev1.Pod]bool{}
	for _, shares := range packing.Solve(&existing).OnNodes {
		for _, share := range shares {
			for _, n := range share.Pods {
				placed[p.classes[share.Class].pods[n]] = true
			}
		}
	}
	return placed
}
