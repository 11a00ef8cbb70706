package kube

import (
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/requirement"
)

// SpreadConstraint is a topology spread constraint of a pod.
type SpreadConstraint struct {
	Selector                   *PodSelector
	Key                        string
	MaxSkew, MinDomains        int  // MinDomains is 0 if not set
	HonorAffinity, HonorTaints bool // nodeAffinityPolicy and nodeTaintsPolicy
	Soft                       bool // ScheduleAnyway
}

// SpreadOf reads a spread constraint of the pod, which counts pods of the pod's namespace. Like kube-scheduler, it also requires the pod's
// current values of matchLabelKeys, whether or not the API server has merged them already.
func (s *Selectors) SpreadOf(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) SpreadConstraint {
	var more []requirement.Expression
	for _, key := range c.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok {
			more = append(more, requirement.Expression{Key: key, Op: requirement.In, Values: []string{value}})
		}
	}
	out := SpreadConstraint{
		Selector: s.read(c.LabelSelector, more, s.listOf([]string{pod.Namespace})), Key: v1.NormalizeLabel(c.TopologyKey), MaxSkew: int(c.MaxSkew),
		HonorAffinity: true, Soft: c.WhenUnsatisfiable == corev1.ScheduleAnyway,
	}
	if c.MinDomains != nil {
		out.MinDomains = int(*c.MinDomains)
	}
	if c.NodeAffinityPolicy != nil {
		out.HonorAffinity = *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
	}
	if c.NodeTaintsPolicy != nil {
		out.HonorTaints = *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	}
	return out
}
