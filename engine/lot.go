package engine

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// lot is pods of one node that would move with it and that nothing tells apart: they ask for the same, request the same, and the
// same selectors are about them.
type lot struct {
	facts *podFacts // of the oldest
	pods  []*corev1.Pod
}

// lotsOf sorts the movable pods of the roll into lots. What a pod with volumes asks for hangs on other objects, so that it is a
// lot of its own; so is one whose requests make no sense.
func (m *Memo) lotsOf(r *roll) []lot {
	if r.lotsRead {
		return r.lots
	}
	r.lotsRead = true
	r.readMovable()
	for _, f := range r.movers {
		i := -1
		if !f.mounts && f.requestProblem().OK() {
			ask, need := m.askOf(f), m.nextNeed(f)
			i = slices.IndexFunc(r.lots, func(l lot) bool { return l.facts.ask == ask && l.facts.next == need && l.facts.kind == f.kind })
		}
		if i < 0 {
			i = len(r.lots)
			r.lots = append(r.lots, lot{facts: f})
		}
		r.lots[i].pods = append(r.lots[i].pods, f.pod)
	}
	return r.lots
}

// lotsToPlan lists the pods of the machines that the trial plans for although they stay.
func (p *problem) lotsToPlan() []waitingLot {
	var out []waitingLot
	for _, h := range p.hosts {
		if !p.trial.also.has(h) {
			continue
		}
		for _, l := range p.census.memo.lotsOf(h.roll) {
			if pods := p.mayLeave(h, l); len(pods) == 0 {
				continue
			} else if !p.wishes.spreads.anywhere {
				out = p.planLot(out, h, l.facts, pods)
			} else { // what they ask for hangs on whom they belong to
				for i, pod := range pods {
					out = p.planLot(out, h, p.census.memo.factsOf(pod), pods[i:i+1:i+1])
				}
			}
		}
	}
	return out
}

// mayLeave is the pods of the lot that nothing protects for good.
func (p *problem) mayLeave(h *host, l lot) []*corev1.Pod {
	g := p.budgetsOfPods()
	if !h.roll.annotated && !g.mayForbid(l.facts.pod) {
		return l.pods
	}
	stays := func(pod *corev1.Pod) bool { return ProtectionOf(pod, p.snapshot.Now).Active || g.neverAllow(pod) }
	if !slices.ContainsFunc(l.pods, stays) {
		return l.pods
	}
	return slices.DeleteFunc(slices.Clone(l.pods), stays)
}

// planLot adds the pods to those that are planned for, or to those that nothing can be planned for.
func (p *problem) planLot(out []waitingLot, h *host, f *podFacts, pods []*corev1.Pod) []waitingLot {
	w := p.wishes.ofFacts(f)
	if w.objection.OK() {
		return append(out, waitingLot{pods: pods, facts: f, wish: w, from: h})
	}
	for _, pod := range pods {
		p.refused = append(p.refused, Unplaced{Pod: podID(pod), Reasons: []Reason{w.objection}})
	}
	return out
}
