package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/requirement"
)

// NodeNameKey is the key of a node's name in affinity that refers to the field instead of a label.
const NodeNameKey = "metadata.name"

// NodeConstraints are a pod's constraints on a node, without resources.
type NodeConstraints struct {
	// Terms are alternatives; a node must meet every expression of one of them. They include the node selector.
	Terms       [][]requirement.Expression
	Tolerations []corev1.Toleration
	// Told are the terms for texts of reasons, before any reduction: Terms may leave out values that no machine has.
	Told [][]requirement.Expression
	// Strict are the terms without the places of volumes: spread constraints count nodes by them.
	Strict [][]requirement.Expression
	// Features are the features that a node must declare.
	Features []string
	// Avoid keeps the pod off nodes with PreferNoSchedule taints that it does not tolerate.
	Avoid bool
}

func NodeConstraintsOf(spec *corev1.PodSpec) NodeConstraints {
	terms := NodeTermsOf(spec, v1.NormalizeLabel)
	return NodeConstraints{Terms: terms, Told: terms, Tolerations: spec.Tolerations}
}

// AsWritten returns the label's name unchanged: unlike v1.NormalizeLabel, kube-scheduler knows no other names of a label.
func AsWritten(label string) string { return label }

// NodeTermsOf returns the pod's node selector and required node affinity as alternatives: a node must meet every expression of one of them. The
// function name maps the label names. A single alternative without expressions matches every node.
func NodeTermsOf(spec *corev1.PodSpec, name func(label string) string) [][]requirement.Expression {
	var selector []requirement.Expression
	for _, key := range SortedKeys(spec.NodeSelector) {
		selector = append(selector, ExpressionAs(name, key, corev1.NodeSelectorOpIn, []string{spec.NodeSelector[key]}))
	}
	if !HasRequired(spec) {
		return [][]requirement.Expression{selector}
	}
	var out [][]requirement.Expression
	for _, term := range RequiredTerms(spec) {
		if all := ExpressionsOf(term, name); len(all) > 0 {
			out = append(out, slices.Concat(selector, all))
		}
	}
	return out
}

// SelectsNode reports whether the node meets the pod's node selector and required node affinity.
func SelectsNode(spec *corev1.PodSpec, node *corev1.Node) bool {
	meets := func(e requirement.Expression) bool {
		if e.Key == NodeNameKey {
			return e.Admits(node.Name, true)
		}
		value, there := node.Labels[e.Key]
		return e.Admits(value, there)
	}
	return slices.ContainsFunc(NodeTermsOf(spec, AsWritten), func(term []requirement.Expression) bool {
		return !slices.ContainsFunc(term, func(e requirement.Expression) bool { return !meets(e) })
	})
}

// AnyNode reports whether every node meets the alternatives.
func AnyNode(terms [][]requirement.Expression) bool { return len(terms) == 1 && len(terms[0]) == 0 }

// PreferredTerm is a term of preferred node affinity.
type PreferredTerm struct {
	Weight int
	Term   []requirement.Expression
}

// PreferredTermsOf reads the pod's preferred node affinity.
func PreferredTermsOf(spec *corev1.PodSpec, name func(label string) string) []PreferredTerm {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return nil
	}
	var out []PreferredTerm
	for _, t := range spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		if all := ExpressionsOf(t.Preference, name); len(all) > 0 {
			out = append(out, PreferredTerm{int(t.Weight), all})
		}
	}
	return out
}

// ExpressionsOf returns the term's expressions, with fields as labels. It returns none for an empty term, which matches no node, and for a term
// that kube-scheduler cannot read and skips.
func ExpressionsOf(term corev1.NodeSelectorTerm, name func(label string) string) []requirement.Expression {
	if _, text := NodeTermProblem(term); text != "" {
		return nil
	}
	all := make([]requirement.Expression, 0, len(term.MatchExpressions)+len(term.MatchFields))
	for _, e := range term.MatchExpressions {
		all = append(all, ExpressionAs(name, e.Key, e.Operator, e.Values))
	}
	for _, e := range term.MatchFields {
		all = append(all, requirement.Expect(NodeNameKey, requirement.Operator(e.Operator), e.Values))
	}
	return all
}

func HasRequired(spec *corev1.PodSpec) bool {
	return spec.Affinity != nil && spec.Affinity.NodeAffinity != nil &&
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
}

func RequiredTerms(spec *corev1.PodSpec) []corev1.NodeSelectorTerm {
	if !HasRequired(spec) {
		return nil
	}
	return spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

func Expression(key string, op corev1.NodeSelectorOperator, values []string) requirement.Expression {
	return ExpressionAs(v1.NormalizeLabel, key, op, values)
}

// ExpressionAs returns the expression with the label's name from the function, and with the values for a label of that name.
func ExpressionAs(name func(label string) string, key string, op corev1.NodeSelectorOperator, values []string) requirement.Expression {
	current := name(key)
	if current != key {
		values = v1.NormalizeValues(key, values)
	}
	return requirement.Expect(current, requirement.Operator(op), values)
}

func PoolExpression(r v1.Requirement) requirement.Expression {
	return requirement.Expect(v1.NormalizeLabel(r.Key), requirement.Operator(r.Operator), v1.NormalizeValues(r.Key, r.Values))
}

// Text returns a text that is the same for equal constraints only.
func (d NodeConstraints) Text() string {
	terms := make([]string, 0, len(d.Terms))
	for _, term := range d.Terms {
		parts := make([]string, 0, len(term))
		for _, e := range term {
			values := slices.Clone(e.Values)
			slices.Sort(values)
			parts = append(parts, fmt.Sprintf("%q %s %q", e.Key, e.Op, values))
		}
		slices.Sort(parts)
		// In brackets, because an empty term (any node) differs from no term (no node).
		terms = append(terms, "("+strings.Join(slices.Compact(parts), "&")+")")
	}
	// The terms stay in order, because alternatives are tried in order.
	tolerations := make([]string, 0, len(d.Tolerations))
	for _, t := range d.Tolerations {
		tolerations = append(tolerations, fmt.Sprintf("%q %s %q %s", t.Key, t.Operator, t.Value, t.Effect))
	}
	slices.Sort(tolerations)
	return strings.Join(terms, "|") + "\n" + strings.Join(slices.Compact(tolerations), "|") +
		fmt.Sprintf("\n%t %q", d.Avoid, d.Features)
}

func ListText(list corev1.ResourceList) string {
	var b strings.Builder
	names := make([]string, 0, len(list))
	for name := range list {
		names = append(names, string(name))
	}
	slices.Sort(names)
	for _, name := range names {
		if n := Amount(corev1.ResourceName(name), list[corev1.ResourceName(name)]); n != 0 {
			fmt.Fprintf(&b, "%s=%020d ", name, n)
		}
	}
	return b.String()
}

// OlderFirst orders pods by age, then by namespace and name, with numbers in numeric order: web-2 before web-10.
func OlderFirst(a, b *corev1.Pod) int {
	if n := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); n != 0 {
		return n
	}
	if n := strings.Compare(a.Namespace, b.Namespace); n != 0 {
		return n
	}
	return CompareNaturally(a.Name, b.Name)
}

// CompareNaturally compares names by the part before the number at their end, then by that number: the shorter number is smaller.
func CompareNaturally(a, b string) int {
	if n := strings.Compare(stem(a), stem(b)); n != 0 {
		return n
	}
	if n := cmp.Compare(len(a), len(b)); n != 0 {
		return n
	}
	return strings.Compare(a, b)
}

// stem returns the name without the number at its end.
func stem(name string) string {
	n := len(name)
	for n > 0 && name[n-1] >= '0' && name[n-1] <= '9' {
		n--
	}
	return name[:n]
}

func SortedKeys[K cmp.Ordered, V any, M ~map[K]V](m M) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func ExpressionText(e requirement.Expression) string {
	switch e.Op {
	case requirement.Exists, requirement.DoesNotExist:
		return string(e.Op)
	case requirement.In, requirement.NotIn:
		values := slices.Clone(e.Values)
		slices.Sort(values)
		return fmt.Sprintf("%s (%s)", e.Op, engine.AtMost(values, 6))
	}
	return fmt.Sprintf("%s %s", e.Op, strings.Join(e.Values, ","))
}

func TermText(term []requirement.Expression) string {
	parts := make([]string, 0, len(term))
	for _, e := range term {
		parts = append(parts, e.Key+" "+ExpressionText(e))
	}
	return strings.Join(parts, " and ")
}

// Text returns the amount in words: cores as a decimal number, other resources as a quantity.
func Text(name corev1.ResourceName, n int64) string {
	if name == corev1.ResourceCPU {
		return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64)
	}
	q := Quantity(name, n)
	return q.String()
}

func TaintText(t corev1.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

// Preferring adds a preferred node term to each required term.
func Preferring(terms [][]requirement.Expression, term []requirement.Expression) [][]requirement.Expression {
	out := make([][]requirement.Expression, 0, len(terms))
	for _, t := range terms {
		out = append(out, slices.Concat(t, term))
	}
	return out
}

// IsHost reports whether the key makes every node a domain of its own.
func IsHost(key string) bool { return key == corev1.LabelHostname }

func PortText(p HostPort) string {
	text := strconv.Itoa(int(p.Port)) + "/" + p.Protocol
	if p.Address != EveryAddress {
		text += " on " + p.Address
	}
	return text
}
