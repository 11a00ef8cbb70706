package provisioning

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// pendingOfTrial returns the pods of the machines in Also, which are not removed.
func (rd *Reading) pendingOfTrial() []pendingClass {
	var out []pendingClass
	for _, m := range rd.Machines {
		if !rd.trial.Also.Has(m) {
			continue
		}
		for _, l := range rd.Pods.Cache.ClassesOf(m.Pods) {
			if pods := rd.mayLeave(m, l); len(pods) == 0 {
				continue
			} else if !rd.Constraints.Spreads.Anywhere {
				out = rd.planClass(out, m, l.First, pods)
			} else { // the constraints depend on the pod's owner
				for i, pod := range pods {
					out = rd.planClass(out, m, rd.Pods.Cache.InfoOf(pod), pods[i:i+1:i+1])
				}
			}
		}
	}
	return out
}

// mayLeave returns the pods of the class that do not stay.
func (rd *Reading) mayLeave(m *inventory.Machine, l inventory.EquivalenceClass) []*corev1.Pod {
	if !m.Pods.Annotated && !rd.budgetsOfPods().MayForbid(l.First.Pod) || !slices.ContainsFunc(l.Pods, rd.stays) {
		return l.Pods
	}
	return slices.DeleteFunc(slices.Clone(l.Pods), rd.stays)
}

// planClass adds the pods to the planned ones, or refuses them if their constraints cannot be planned for.
func (rd *Reading) planClass(out []pendingClass, m *inventory.Machine, f *inventory.PodInfo, pods []*corev1.Pod) []pendingClass {
	c := rd.Constraints.OfInfo(f)
	if c.Objection.OK() {
		return append(out, pendingClass{Pods: pods, info: f, constraints: c, From: m})
	}
	for _, pod := range pods {
		rd.refused = append(rd.refused, engine.Unplaced{Pod: kube.PodID(pod), Reasons: []engine.Reason{c.Objection}})
	}
	return out
}
