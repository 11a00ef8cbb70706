package provisioning

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// pendingOfTrial returns the pods of the machines in Also, which stay.
func (p *Problem) pendingOfTrial() []pendingClass {
	var out []pendingClass
	for _, m := range p.Machines {
		if !p.trial.Also.Has(m) {
			continue
		}
		for _, l := range p.Pods.Cache.ClassesOf(m.Pods) {
			if pods := p.mayLeave(m, l); len(pods) == 0 {
				continue
			} else if !p.Constraints.Spreads.Anywhere {
				out = p.planClass(out, m, l.First, pods)
			} else { // the constraints depend on the pod's owner
				for i, pod := range pods {
					out = p.planClass(out, m, p.Pods.Cache.InfoOf(pod), pods[i:i+1:i+1])
				}
			}
		}
	}
	return out
}

// mayLeave returns the pods of the class that do not stay.
func (p *Problem) mayLeave(m *inventory.Machine, l inventory.EquivalenceClass) []*corev1.Pod {
	if !m.Pods.Annotated && !p.budgetsOfPods().MayForbid(l.First.Pod) || !slices.ContainsFunc(l.Pods, p.stays) {
		return l.Pods
	}
	return slices.DeleteFunc(slices.Clone(l.Pods), p.stays)
}

// planClass adds the pods to the planned ones, or refuses them if their constraints cannot be planned for.
func (p *Problem) planClass(out []pendingClass, m *inventory.Machine, f *inventory.PodInfo, pods []*corev1.Pod) []pendingClass {
	c := p.Constraints.OfInfo(f)
	if c.Objection.OK() {
		return append(out, pendingClass{Pods: pods, info: f, constraints: c, From: m})
	}
	for _, pod := range pods {
		p.refused = append(p.refused, engine.Unplaced{Pod: kube.PodID(pod), Reasons: []engine.Reason{c.Objection}})
	}
	return out
}
