package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
)

// nodeNameKey stands for a node's name where affinity refers to the field instead of a label.
const nodeNameKey = "metadata.name"

// demand is what a pod asks of a node, room aside.
type demand struct {
	// terms are alternatives; a node must meet every expression of one of them. They include the node selector.
	terms       [][]requirement.Expression
	tolerations []corev1.Toleration
	// told are the terms as they were read, for reasons: terms may leave out what no machine has.
	told [][]requirement.Expression
	// strict are the terms without what volumes add: spreads count nodes by them.
	strict [][]requirement.Expression
	// features are what a node has to declare.
	features []string
	// avoid keeps pods off nodes that should rather be avoided (PreferNoSchedule).
	avoid bool
}

func demandOf(spec *corev1.PodSpec) demand {
	var selector []requirement.Expression
	for _, key := range sortedKeys(spec.NodeSelector) {
		selector = append(selector, expression(key, corev1.NodeSelectorOpIn, []string{spec.NodeSelector[key]}))
	}
	d := demand{tolerations: spec.Tolerations}
	for _, term := range requiredTerms(spec) {
		if _, text := nodeTermProblem(term); text != "" || isEmptyTerm(term) {
			continue // kube-scheduler passes over terms that it cannot read, and an empty term matches no node
		}
		d.terms = append(d.terms, slices.Concat(selector, expressionsOf(term)))
	}
	if !hasRequired(spec) {
		d.terms = [][]requirement.Expression{selector}
	}
	d.told = d.terms
	return d
}

// expressionsOf is what the term asks for, fields as labels.
func expressionsOf(term corev1.NodeSelectorTerm) []requirement.Expression {
	all := make([]requirement.Expression, 0, len(term.MatchExpressions)+len(term.MatchFields))
	for _, e := range term.MatchExpressions {
		all = append(all, expression(e.Key, e.Operator, e.Values))
	}
	for _, e := range term.MatchFields {
		all = append(all, expression(nodeNameKey, e.Operator, e.Values))
	}
	return all
}

func hasRequired(spec *corev1.PodSpec) bool {
	return spec.Affinity != nil && spec.Affinity.NodeAffinity != nil &&
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
}

func requiredTerms(spec *corev1.PodSpec) []corev1.NodeSelectorTerm {
	if !hasRequired(spec) {
		return nil
	}
	return spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

func expression(key string, op corev1.NodeSelectorOperator, values []string) requirement.Expression {
	return requirement.Expect(v1.NormalizeLabel(key), requirement.Operator(op), values)
}

func poolExpression(r v1.Requirement) requirement.Expression {
	return requirement.Expect(v1.NormalizeLabel(r.Key), requirement.Operator(r.Operator), r.Values)
}

// text writes the demand so that equal demands, and only these, read alike.
func (d demand) text() string {
	terms := make([]string, 0, len(d.terms))
	for _, term := range d.terms {
		parts := make([]string, 0, len(term))
		for _, e := range term {
			values := slices.Clone(e.Values)
			slices.Sort(values)
			parts = append(parts, fmt.Sprintf("%q %s %q", e.Key, e.Op, values))
		}
		slices.Sort(parts)
		// In brackets: one term that asks for nothing is another thing than no term, which no node can meet.
		terms = append(terms, "("+strings.Join(slices.Compact(parts), "&")+")")
	}
	// The order of the terms stays: alternatives are tried in it.
	tolerations := make([]string, 0, len(d.tolerations))
	for _, t := range d.tolerations {
		tolerations = append(tolerations, fmt.Sprintf("%q %s %q %s", t.Key, t.Operator, t.Value, t.Effect))
	}
	slices.Sort(tolerations)
	return strings.Join(terms, "|") + "\n" + strings.Join(slices.Compact(tolerations), "|") +
		fmt.Sprintf("\n%t %q", d.avoid, d.features)
}

// podClass is a number of pods that the engine cannot tell apart: they have the same wish, request the same, the same
// constraints of others are about them, and they are expected on the same machine, if on any.
type podClass struct {
	*wish
	need     corev1.ResourceList
	size     string // need as text, in order of size
	request  capacity.Vector
	matched  []int         // selectors that are about the pods
	pods     []*corev1.Pod // oldest first; in a trial that only counts pods, the first is the oldest
	lots     []waitingLot  // those that run somewhere, in such a trial
	unmanned bool          // asks for nodes that no pool owns
	levels   []packing.Level
	home     *host // the machine that the pods are expected on, nil for none
	proposed bool  // or had better go to, if there is room
	batch    int   // the pods share new machines with those of the same batch only
}

// classesOf groups the pods. Classes are in order of what they ask for, so that the plan does not hang on names.
func (p *problem) classesOf(lots []waitingLot) []*podClass {
	type key struct {
		wish     int
		need     *podNeed
		matched  string
		home     *host
		proposed bool
		batch    int
	}
	byKey := map[key]*podClass{}
	var keys []key
	for _, w := range lots {
		matched := w.facts.kind.match(p.crowd.id, p.crowd.index)
		p.looked += len(matched)
		requested := p.census.memo.nextNeed(w.facts)
		k := key{w.wish.id, requested, w.facts.kind.text, w.home, w.proposed, w.batch}
		c, ok := byKey[k]
		if !ok {
			need, size := w.wish.withVolumes(requested)
			c = &podClass{wish: w.wish, need: need, size: size, matched: slices.Clone(matched), unmanned: asksForUnmanaged(w.wish.demand), home: w.home, proposed: w.proposed, batch: w.batch}
			byKey[k] = c
			keys = append(keys, k)
		}
		c.pods = append(c.pods, w.pods...)
		if w.from != nil {
			c.lots = append(c.lots, w)
		}
	}
	classes := make([]*podClass, 0, len(keys))
	for _, k := range keys {
		c := byKey[k]
		if !p.trial.counts() {
			slices.SortFunc(c.pods, olderFirst)
		} else {
			c.oldestFirst()
		}
		classes = append(classes, c)
	}
	slices.SortFunc(classes, compareClasses)
	return classes
}

// oldestFirst brings the oldest pod to the front, for classes whose order does not matter otherwise. Lots begin with theirs.
func (c *podClass) oldestFirst() {
	oldest, at := 0, len(c.pods)
	for i := len(c.lots) - 1; i >= 0; i-- {
		if at -= len(c.lots[i].pods); olderFirst(c.pods[at], c.pods[oldest]) <= 0 {
			oldest = at
		}
	}
	c.pods[0], c.pods[oldest] = c.pods[oldest], c.pods[0]
}

// compareClasses orders classes by what they ask for, and classes that ask for the same by the first of their pods.
func compareClasses(a, b *podClass) int {
	if n := cmp.Or(
		cmp.Compare(b.priority, a.priority),
		cmp.Compare(a.size, b.size),
		cmp.Compare(len(a.told), len(b.told)),
		cmp.Compare(len(a.spreads), len(b.spreads)),
		cmp.Compare(len(a.affinity), len(b.affinity)),
		cmp.Compare(len(a.anti), len(b.anti)),
		cmp.Compare(len(a.soft), len(b.soft)),
		cmp.Compare(len(a.matched), len(b.matched)),
		cmp.Compare(len(b.pods), len(a.pods)),
	); n != 0 {
		return n
	}
	// Who asks for more domains goes first: it is the harder to please.
	return cmp.Or(cmp.Compare(b.domains(), a.domains()), cmp.Compare(a.structure(), b.structure()), olderFirst(a.pods[0], b.pods[0]))
}

// asksForUnmanaged reports whether every alternative rules out nodes that belong to a pool.
func asksForUnmanaged(d demand) bool {
	for _, term := range d.told {
		if !slices.ContainsFunc(term, func(e requirement.Expression) bool {
			return e.Key == v1.NodePoolLabelKey && e.Op == requirement.DoesNotExist
		}) {
			return false
		}
	}
	return len(d.told) > 0
}

func listText(list corev1.ResourceList) string {
	var b strings.Builder
	names := make([]string, 0, len(list))
	for name := range list {
		names = append(names, string(name))
	}
	slices.Sort(names)
	for _, name := range names {
		if n := amount(corev1.ResourceName(name), list[corev1.ResourceName(name)]); n != 0 {
			fmt.Fprintf(&b, "%s=%020d ", name, n)
		}
	}
	return b.String()
}

// olderFirst orders pods by age, then by name in the way people count: web-2 before web-10.
func olderFirst(a, b *corev1.Pod) int {
	if n := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); n != 0 {
		return n
	}
	if n := strings.Compare(a.Namespace, b.Namespace); n != 0 {
		return n
	}
	return naturally(a.Name, b.Name)
}

// naturally compares names by what stands before the number at their end, then by that number: the shorter one is the
// smaller one.
func naturally(a, b string) int {
	if n := strings.Compare(stem(a), stem(b)); n != 0 {
		return n
	}
	if n := cmp.Compare(len(a), len(b)); n != 0 {
		return n
	}
	return strings.Compare(a, b)
}

// stem is the name without the number at its end.
func stem(name string) string {
	n := len(name)
	for n > 0 && name[n-1] >= '0' && name[n-1] <= '9' {
		n--
	}
	return name[:n]
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
