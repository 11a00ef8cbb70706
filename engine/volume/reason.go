package volume

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// Named returns the reasons of a class of equal pods, with the names of this pod's claims in them.
func (v *Volumes) Named(pod *corev1.Pod, reasons []engine.Reason) []engine.Reason {
	if len(pod.Spec.Volumes) == 0 {
		return reasons
	}
	out := slices.Clone(reasons)
	told := kube.NodeConstraintsOf(&pod.Spec).Told
	for i, r := range out {
		switch r.Code {
		case engine.VolumeNotReady:
			if r.Key == "" {
				out[i].Key = v.taker(pod)
			}
		case engine.LabelMismatch:
			out[i] = v.elsewhere(pod, told, r, r.Key, r.Need, "the pool offers "+r.Have)
		case engine.LabelNotDefined:
			out[i] = v.elsewhere(pod, told, r, r.Key, r.Need, "which the pool does not define")
		case engine.NoExistingNodeMatches:
			need := kube.ExpressionText(requirement.Expression{Op: requirement.In, Values: []string{r.Need}})
			out[i] = v.elsewhere(pod, told, r, corev1.LabelHostname, need, "a node that cannot take the pod, and no new node will have that name")
		}
	}
	return out
}

// taker returns the pod's claim that takes from the free volumes of a class. It returns "" if there is none.
func (v *Volumes) taker(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		if facts, id := v.factsOf(pod, &pod.Spec.Volumes[i]); facts != nil && facts.take != nil {
			return id.String()
		}
	}
	return ""
}

// elsewhere returns a reason that names the volume, if one of the pod's volumes, and not the pod itself, requires a label that no machine has.
func (v *Volumes) elsewhere(pod *corev1.Pod, told [][]requirement.Expression, r engine.Reason, key, need, have string) engine.Reason {
	asks := func(terms [][]requirement.Expression) bool {
		return slices.ContainsFunc(terms, func(term []requirement.Expression) bool {
			return slices.ContainsFunc(term, func(e requirement.Expression) bool { return e.Key == key && kube.ExpressionText(e) == need })
		})
	}
	if asks(told) {
		return r
	}
	for i := range pod.Spec.Volumes {
		facts, id := v.factsOf(pod, &pod.Spec.Volumes[i])
		if facts == nil || !asks(facts.places) {
			continue
		}
		what := cmp.Or(facts.Storage, "its volume can only be made or found")
		if claim := v.claims[id]; claim != nil && claim.Spec.VolumeName != "" {
			what = "its volume " + claim.Spec.VolumeName + " is"
		}
		return engine.Reason{Code: engine.VolumeElsewhere, NodePool: r.NodePool, Key: id.String(), Need: fmt.Sprintf("%s where %s %s", what, key, need), Have: have}.Bounded()
	}
	return r
}
