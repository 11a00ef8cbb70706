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
	// terms are alternatives; nil means that any node will do.
	terms       [][]requirement.Expression
	preferred   []preferredTerm
	tolerations []corev1.Toleration
	// volumes holds, for each volume that is tied to a place, the alternatives.
	volumes [][][]requirement.Expression

	// affinityText and tolerationText tell grounds apart for spread constraints, which count only nodes that the pod
	// could use.
	affinityText, tolerationText string
	verdicts                     []filterResult // by kind of node
	plain                        bool           // known to admit pods to all nodes alike
}

type preferredTerm struct {
	weight int64
	all    []requirement.Expression
}

// filterResult is what a node filter says of one kind of node.
type filterResult struct {
	known bool
	// affine and tolerated say whether node affinity and taints admit the pod; admitted, whether these and volumes do.
	affine, tolerated, admitted bool
	// taints counts those that the pod should rather avoid, preferred is the weight of the preferred terms that it meets.
	taints, preferred int64
}

func nodeTerms(spec *corev1.PodSpec) [][]requirement.Expression {
	var selector []requirement.Expression
	for _, key := range kube.SortedKeys(spec.NodeSelector) {
		selector = append(selector, requirement.Expression{Key: key, Op: requirement.In, Values: []string{spec.NodeSelector[key]}})
	}
	if !kube.HasRequired(spec) {
		if selector == nil {
			return nil
		}
		return [][]requirement.Expression{selector}
	}
	terms := [][]requirement.Expression{}
	for _, t := range kube.RequiredTerms(spec) {
		if all := termExpressions(&t); len(all) > 0 { // no node matches an empty term, or one that cannot be read
			terms = append(terms, slices.Concat(selector, all))
		}
	}
	return terms
}

func termExpressions(t *corev1.NodeSelectorTerm) []requirement.Expression {
	if _, text := kube.NodeTermProblem(*t); text != "" {
		return nil
	}
	var all []requirement.Expression
	for _, e := range t.MatchExpressions {
		all = append(all, requirement.Expect(e.Key, requirement.Operator(e.Operator), e.Values))
	}
	for _, e := range t.MatchFields {
		all = append(all, requirement.Expression{Key: kube.NodeNameKey, Op: requirement.Operator(e.Operator), Values: e.Values})
	}
	return all
}

func preferredTerms(spec *corev1.PodSpec) []preferredTerm {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return nil
	}
	var out []preferredTerm
	for _, t := range spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		if all := termExpressions(&t.Preference); len(all) > 0 && t.Weight != 0 {
			out = append(out, preferredTerm{int64(t.Weight), all})
		}
	}
	return out
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
		note([][]requirement.Expression{p.all})
	}
}

// filterResult is what the node filter says of node i.
func (w *replayState) filterResult(g *nodeFilter, i int) *filterResult {
	v := &g.verdicts[w.kindOf[i]]
	if !v.known {
		g.judge(v, w.nodes[i])
	}
	return v
}

// fewKinds is of how many kinds of nodes one looks beforehand whether a node filter is plain: most are.
const fewKinds = 16

// isPlain reports whether the node filter admits pods to all nodes alike, of which there is one of each kind in kinds.
func (w *replayState) isPlain(g *nodeFilter, kinds []int) bool {
	return len(kinds) <= fewKinds && !slices.ContainsFunc(kinds, func(i int) bool {
		v := w.filterResult(g, i)
		return !v.admitted || v.taints > 0 || v.preferred != 0
	})
}

// judge works out the result of the filter for a kind of node, of which n is one.
func (g *nodeFilter) judge(v *filterResult, n *nodeInfo) {
	v.known = true
	v.affine = g.terms == nil || n.meetsOne(g.terms)
	v.tolerated = kube.Untolerated(g.tolerations, n.taints) == nil
	open := !n.node.Spec.Unschedulable || kube.Tolerates(g.tolerations, cordonTaint())
	v.admitted = v.affine && v.tolerated && open && !slices.ContainsFunc(g.volumes, func(terms [][]requirement.Expression) bool { return !n.meetsOne(terms) })
	for i := range n.taints {
		if n.taints[i].Effect == corev1.TaintEffectPreferNoSchedule && !kube.Tolerates(g.tolerations, n.taints[i]) {
			v.taints++
		}
	}
	for _, p := range g.preferred {
		if n.meetsAll(p.all) {
			v.preferred += p.weight
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
