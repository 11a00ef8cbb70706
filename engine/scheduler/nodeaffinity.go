package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// nodeFilter holds a pod's rules on the node itself, without resources and other pods. It reads label names unchanged, because kube-scheduler
// does so.
type nodeFilter struct {
	terms       [][]requirement.Expression // alternatives
	preferred   []kube.PreferredTerm
	tolerations []corev1.Toleration
	// volumes holds the alternative terms of each volume that not every node reaches.
	volumes [][][]requirement.Expression

	// affinityText and tolerationText identify the nodes that a spread constraint counts, if it honors the pod's affinity and tolerations.
	affinityText, tolerationText string
	verdicts                     []filterResult // the filter's result for each kind of node
	plain                        bool           // known to admit and score all nodes equally
}

// filterResult is a node filter's result for one kind of node.
type filterResult struct {
	known bool
	// affine and tolerated are the results of node affinity and taints; admitted is the result of both, of volumes and of the cordon.
	affine, tolerated, admitted bool
	// taints counts the PreferNoSchedule taints that the pod does not tolerate; preferred is the weight of the preferred terms that the node
	// meets.
	taints, preferred int64
}

// mention adds the labels that the node filter reads.
func (g *nodeFilter) mention(keys map[string]bool) {
	note := func(terms [][]requirement.Expression) {
		for _, term := range terms {
			for _, e := range term {
				keys[e.Key] = true
			}
		}
	}
	note(g.terms)
	for _, v := range g.volumes {
		note(v)
	}
	for _, p := range g.preferred {
		note([][]requirement.Expression{p.Term})
	}
}

// filterResult returns the node filter's result for node i.
func (state *replayState) filterResult(g *nodeFilter, i int) *filterResult {
	v := &g.verdicts[state.kindOf[i]]
	if !v.known {
		g.judge(v, state.nodes[i])
	}
	return v
}

// fewKinds is the largest number of node kinds for which isPlain checks a filter: most clusters have fewer.
const fewKinds = 16

// isPlain reports whether the node filter treats all nodes equally; kinds holds one node of each kind.
func (state *replayState) isPlain(g *nodeFilter, kinds []int) bool {
	return len(kinds) <= fewKinds && !slices.ContainsFunc(kinds, func(i int) bool {
		v := state.filterResult(g, i)
		return !v.admitted || v.taints > 0 || v.preferred != 0
	})
}

// judge computes the filter's result for the kind of node n.
func (g *nodeFilter) judge(v *filterResult, n *nodeInfo) {
	v.known = true
	v.affine = n.meetsOne(g.terms)
	v.tolerated = kube.Untolerated(g.tolerations, n.taints) == nil
	open := !n.node.Spec.Unschedulable || kube.Tolerates(g.tolerations, cordonTaint())
	v.admitted = v.affine && v.tolerated && open && !slices.ContainsFunc(g.volumes, func(terms [][]requirement.Expression) bool { return !n.meetsOne(terms) })
	for i := range n.taints {
		if n.taints[i].Effect == corev1.TaintEffectPreferNoSchedule && !kube.Tolerates(g.tolerations, n.taints[i]) {
			v.taints++
		}
	}
	for _, p := range g.preferred {
		if n.meetsAll(p.Term) {
			v.preferred += int64(p.Weight)
		}
	}
}

// cordonTaint returns the taint that a pod must tolerate to run on a cordoned node, even if the node does not have it yet.
func cordonTaint() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
}

func (n *nodeInfo) meetsOne(terms [][]requirement.Expression) bool {
	return slices.ContainsFunc(terms, n.meetsAll)
}

func (n *nodeInfo) meetsAll(term []requirement.Expression) bool {
	return !slices.ContainsFunc(term, func(e requirement.Expression) bool { return !e.Admits(n.label(e.Key)) })
}

func (n *nodeInfo) label(key string) (value string, there bool) {
	if key == kube.NodeNameKey {
		return n.node.Name, true
	}
	value, there = n.node.Labels[key]
	return value, there
}
