package engine

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/requirement"
)

// nodeNameKey stands for a node's name where affinity refers to the field instead of a label.
const nodeNameKey = "metadata.name"

// demand is what a pod asks of a node, room aside.
type demand struct {
	// terms are alternatives; a node must meet every expression of one of them. They include the node selector.
	terms       [][]requirement.Expression
	tolerations []corev1.Toleration
}

func demandOf(spec *corev1.PodSpec) demand {
	var selector []requirement.Expression
	for _, key := range sortedKeys(spec.NodeSelector) {
		selector = append(selector, expression(key, corev1.NodeSelectorOpIn, []string{spec.NodeSelector[key]}))
	}
	d := demand{tolerations: spec.Tolerations}
	for _, term := range requiredTerms(spec) {
		if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
			continue // an empty term matches no node
		}
		all := slices.Clone(selector)
		for _, e := range term.MatchExpressions {
			all = append(all, expression(e.Key, e.Operator, e.Values))
		}
		for _, e := range term.MatchFields {
			all = append(all, expression(nodeNameKey, e.Operator, e.Values))
		}
		d.terms = append(d.terms, all)
	}
	if !hasRequired(spec) {
		d.terms = [][]requirement.Expression{selector}
	}
	return d
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
	return requirement.Expression{Key: v1.NormalizeLabel(key), Op: requirement.Operator(op), Values: values}
}

func poolExpression(r v1.Requirement) requirement.Expression {
	return requirement.Expression{Key: v1.NormalizeLabel(r.Key), Op: requirement.Operator(r.Operator), Values: r.Values}
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
		terms = append(terms, strings.Join(slices.Compact(parts), "&"))
	}
	// The order of the terms stays: alternatives are tried in it.
	tolerations := make([]string, 0, len(d.tolerations))
	for _, t := range d.tolerations {
		tolerations = append(tolerations, fmt.Sprintf("%q %s %q %s", t.Key, t.Operator, t.Value, t.Effect))
	}
	slices.Sort(tolerations)
	return strings.Join(terms, "|") + "\n" + strings.Join(slices.Compact(tolerations), "|")
}

// podClass is a number of pods that the engine cannot tell apart.
type podClass struct {
	demand
	key      string
	need     corev1.ResourceList
	request  capacity.Vector
	pods     []*corev1.Pod // by name
	unmanned bool          // asks for nodes that no pool owns
}

// classesOf groups the pods. Classes are in order of what they ask for, so that the plan does not hang on names.
func classesOf(pods []*corev1.Pod) []*podClass {
	byKey := map[string]*podClass{}
	for _, pod := range pods {
		need := PodRequests(pod)
		d := demandOf(&pod.Spec)
		key := listText(need) + "\n" + d.text()
		c, ok := byKey[key]
		if !ok {
			c = &podClass{demand: d, key: key, need: need, unmanned: asksForUnmanaged(d)}
			byKey[key] = c
		}
		c.pods = append(c.pods, pod)
	}
	classes := make([]*podClass, 0, len(byKey))
	for _, key := range sortedKeys(byKey) {
		c := byKey[key]
		sort.Slice(c.pods, func(i, j int) bool { return podBefore(c.pods[i], c.pods[j]) })
		classes = append(classes, c)
	}
	return classes
}

// asksForUnmanaged reports whether every alternative rules out nodes that belong to a pool.
func asksForUnmanaged(d demand) bool {
	for _, term := range d.terms {
		if !slices.ContainsFunc(term, func(e requirement.Expression) bool {
			return e.Key == v1.NodePoolLabelKey && e.Op == requirement.DoesNotExist
		}) {
			return false
		}
	}
	return len(d.terms) > 0
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

// podBefore orders pods by age, then by name in the way people count: web-2 before web-10.
func podBefore(a, b *corev1.Pod) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	if a.Namespace != b.Namespace {
		return a.Namespace < b.Namespace
	}
	return nameBefore(a.Name, b.Name)
}

// nameBefore compares names by what stands before the number at their end, then by that number: the shorter one is the
// smaller one.
func nameBefore(a, b string) bool {
	stemA, stemB := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
	return cmp.Or(cmp.Compare(stemA, stemB), cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) < 0
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
