package provisioning

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// lotsToPlan lists the pods of the machines that the trial plans for although they stay.
func (p *Problem) lotsToPlan() []waitingLot {
	var out []waitingLot
	for _, h := range p.Hosts {
		if !p.trial.Also.Has(h) {
			continue
		}
		for _, l := range p.Census.Memo.LotsOf(h.Roll) {
			if pods := p.mayLeave(h, l); len(pods) == 0 {
				continue
			} else if !p.Constraints.Spreads.Anywhere {
				out = p.planLot(out, h, l.Facts, pods)
			} else { // what they ask for hangs on whom they belong to
				for i, pod := range pods {
					out = p.planLot(out, h, p.Census.Memo.FactsOf(pod), pods[i:i+1:i+1])
				}
			}
		}
	}
	return out
}

// mayLeave is the pods of the lot that nothing protects for good.
func (p *Problem) mayLeave(h *inventory.Host, l inventory.Lot) []*corev1.Pod {
	g := p.budgetsOfPods()
	if !h.Roll.Annotated && !g.MayForbid(l.Facts.Pod) {
		return l.Pods
	}
	stays := func(pod *corev1.Pod) bool { return kube.ProtectionOf(pod, p.Snapshot.Now).Active || g.NeverAllow(pod) }
	if !slices.ContainsFunc(l.Pods, stays) {
		return l.Pods
	}
	return slices.DeleteFunc(slices.Clone(l.Pods), stays)
}

// planLot adds the pods to those that are planned for, or to those that nothing can be planned for.
func (p *Problem) planLot(out []waitingLot, h *inventory.Host, f *inventory.PodFacts, pods []*corev1.Pod) []waitingLot {
	w := p.Constraints.OfFacts(f)
	if w.Objection.OK() {
		return append(out, waitingLot{Pods: pods, facts: f, wish: w, From: h})
	}
	for _, pod := range pods {
		p.refused = append(p.refused, engine.Unplaced{Pod: kube.PodID(pod), Reasons: []engine.Reason{w.Objection}})
	}
	return out
}
