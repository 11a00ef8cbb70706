package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// nodeFilter is what a pod asks of a node itself, room and other pods aside. Label names are taken as they are written: a
// replay is about what kube-scheduler sees.
type nodeFilter struct {
	terms       [][]requirement.Expression // alternatives
	preferred   []kube.PreferredTerm
	tolerations []corev1.Toleration
	// volumes holds, for each volume that is tied to a place, the alternatives.
	volumes [][][]requirement.Expression

	// affinityText and tolerationText tell grounds apart for spread constraints, which count only nodes that the pod
	// could use.
	affinityText, tolerationText string
	verdicts                     []filterResult // by kind of node
	plain                        bool           // known to admit pods to all nodes alike
}

// filterResult is what a node filter says of one kind of node.
type filterResult struct {
	known bool
	// affine and tolerated say whether node affinity and taints admit the pod; admitted, whether these and volumes do.
	affine, tolerated, admitted bool
	// taints counts those that the pod should rather avoid, preferred is the weight of the preferred terms that it meets.
	taints, preferred int64
}

// mention notes the labels that the node filter tells nodes apart by.
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

// filterResult is what the node filter says of node i.
func (state *replayState) filterResult(g *nodeFilter, i int) *filterResult {
	v := &g.verdicts[state.kindOf[i]]
	if !v.known {
		g.judge(v, state.nodes[i])
	}
	return v
}

// fewKinds is of how many kinds of nodes one looks beforehand whether a node filter is plain: most are.
const fewKinds = 16

// isPlain reports whether the node filter admits pods to all nodes alike, of which there is one of each kind in kinds.
func (state *replayState) isPlain(g *nodeFilter, kinds []int) bool {
	return len(kinds) <= fewKinds && !slices.ContainsFunc(kinds, func(i int) bool {
		v := state.filterResult(g, i)
		return !v.admitted || v.taints > 0 || v.preferred != 0
	})
}

// judge works out the result of the filter for a kind of node, of which n is one.
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

// cordonTaint is the one that a pod must tolerate to go on a cordoned node, whether the node carries it already or not.
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
