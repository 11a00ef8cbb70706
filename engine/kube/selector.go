package kube

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/requirement"
)

// PodSelector says which pods a constraint is about: a label selector that has been read, and the namespaces that it
// looks into. Selectors that mean the same have the same text, and come from one selectors as the same pointer.
type PodSelector struct {
	anywhere   bool     // in every namespace
	namespaces []string // sorted; only read if not anywhere
	Rules      []requirement.Expression
	Nothing    bool // no pod can match
	text       string
}

// matches reports whether the selector is about the pod.
func (p *PodSelector) matches(pod *corev1.Pod) bool {
	return p.looksInto(pod.Namespace) && p.MatchesLabels(pod.Labels)
}

func (p *PodSelector) looksInto(namespace string) bool {
	if p.anywhere {
		return true
	}
	_, ok := slices.BinarySearch(p.namespaces, namespace)
	return ok
}

func (p *PodSelector) MatchesLabels(labels map[string]string) bool {
	if p.Nothing {
		return false
	}
	for i := range p.Rules {
		value, ok := labels[p.Rules[i].Key]
		if !p.Rules[i].Admits(value, ok) {
			return false
		}
	}
	return true
}

// Everything reports whether all labels match. kube-scheduler's topology spread counts no running pod at all for such
// a selector, although the pod that it places matches itself; pod affinity counts every pod.
func (p *PodSelector) Everything() bool { return !p.Nothing && len(p.Rules) == 0 }

// String writes the selector for people: "app=web, tier in (a,b)".
func (p *PodSelector) String() string {
	if p.Nothing {
		return "no labels at all"
	}
	parts := make([]string, 0, len(p.Rules))
	for _, e := range p.Rules {
		if e.Op == requirement.In && len(e.Values) == 1 {
			parts = append(parts, e.Key+"="+e.Values[0])
			continue
		}
		parts = append(parts, e.Key+" "+ExpressionText(e))
	}
	if len(parts) == 0 {
		return "any labels"
	}
	return strings.Join(parts, ", ")
}

// Selectors reads selectors. Each meaning is read once and shared from then on. It is to be used from one goroutine.
type Selectors struct {
	namespaces []*corev1.Namespace // by name
	known      map[string]*PodSelector
	resolved   map[string][]string // names of the namespaces that a namespace selector stands for, by its text
	nowhere    *PodSelector        // about no pod
}

func NewSelectors(s *engine.Snapshot) *Selectors {
	sorted := slices.Clone(s.Namespaces)
	slices.SortFunc(sorted, func(a, b *corev1.Namespace) int { return strings.Compare(a.Name, b.Name) })
	return &Selectors{
		namespaces: sorted, known: map[string]*PodSelector{}, resolved: map[string][]string{},
		nowhere: &PodSelector{Nothing: true, text: "nothing"},
	}
}

// Spread reads the selector of a spread constraint of the pod: pods of its own namespace. The values that the pod has
// now of matchLabelKeys are required too, as kube-scheduler does whether or not the API server has merged them already.
func (s *Selectors) Spread(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) (*PodSelector, engine.Reason) {
	var more []requirement.Expression
	for _, key := range c.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok {
			more = append(more, requirement.Expression{Key: key, Op: requirement.In, Values: []string{value}})
		}
	}
	return s.read(c.LabelSelector, more, []string{pod.Namespace})
}

// Affinity reads the selector and the namespaces of a term of the pod's affinity or anti-affinity. The API server
// merges matchLabelKeys and mismatchLabelKeys into the selector when the pod is made, and kube-scheduler relies on it;
// for pods that no API server has seen they are merged here.
func (s *Selectors) Affinity(pod *corev1.Pod, t *corev1.PodAffinityTerm) (*PodSelector, engine.Reason) {
	var more []requirement.Expression
	merge := func(keys []string, op metav1.LabelSelectorOperator) {
		for _, key := range Unmerged(t.LabelSelector, keys, op) {
			if value, ok := pod.Labels[key]; ok {
				more = append(more, requirement.Expression{Key: key, Op: requirement.Operator(op), Values: []string{value}})
			}
		}
	}
	merge(t.MatchLabelKeys, metav1.LabelSelectorOpIn)
	merge(t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	if t.NamespaceSelector != nil && isEmptySelector(t.NamespaceSelector) {
		return s.read(t.LabelSelector, more, nil)
	}
	namespaces := slices.Clone(t.Namespaces)
	if t.NamespaceSelector != nil {
		if text := SelectorProblem(t.NamespaceSelector); text != "" {
			return s.nowhere, engine.Reason{Code: engine.InvalidPod, Key: "namespaceSelector", Have: text}
		}
		namespaces = append(namespaces, s.namespacesOf(t.NamespaceSelector)...)
	} else if len(namespaces) == 0 {
		namespaces = []string{pod.Namespace}
	}
	slices.Sort(namespaces)
	namespaces = slices.Compact(namespaces)
	if len(namespaces) == 0 {
		return s.nowhere, engine.Reason{} // a namespace selector that no namespace matches now
	}
	return s.read(t.LabelSelector, more, namespaces)
}

// Unmerged are the keys that the selector does not ask for yet in the way that the API server writes what it merges.
func Unmerged(selector *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator) []string {
	if selector == nil {
		return keys
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
			return r.Key == key && r.Operator == op && len(r.Values) == 1
		})
	})
}

// read gives the selector over the sorted namespaces; none at all stand for every namespace. A nil selector is about no
// pod, and so is one that is not valid.
func (s *Selectors) read(selector *metav1.LabelSelector, more []requirement.Expression, namespaces []string) (*PodSelector, engine.Reason) {
	if selector == nil {
		return s.nowhere, engine.Reason{}
	}
	if text := SelectorProblem(selector); text != "" {
		return s.nowhere, engine.Reason{Code: engine.InvalidPod, Key: "labelSelector", Have: text}
	}
	rules, ok := Intersect(append(SelectorRules(selector), more...))
	if !ok {
		return s.nowhere, engine.Reason{}
	}
	text := make([]byte, 0, 128)
	for _, n := range namespaces {
		text = strconv.AppendQuote(text, n)
	}
	text = AppendExpressions(append(text, ':'), rules)
	if known, ok := s.known[string(text)]; ok {
		return known, engine.Reason{}
	}
	p := &PodSelector{anywhere: len(namespaces) == 0, namespaces: namespaces, Rules: rules, text: string(text)}
	s.known[p.text] = p
	return p, engine.Reason{}
}

// namespacesOf lists the namespaces whose labels match, by name.
func (s *Selectors) namespacesOf(selector *metav1.LabelSelector) []string {
	rules, ok := Intersect(SelectorRules(selector))
	if !ok {
		return nil
	}
	key := string(AppendExpressions(nil, rules))
	if names, ok := s.resolved[key]; ok {
		return names
	}
	of := &PodSelector{Rules: rules}
	var names []string
	for _, n := range s.namespaces {
		if of.MatchesLabels(n.Labels) {
			names = append(names, n.Name)
		}
	}
	s.resolved[key] = names
	return names
}

func isEmptySelector(s *metav1.LabelSelector) bool {
	return len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// SelectorRules writes the selector as expressions.
func SelectorRules(s *metav1.LabelSelector) []requirement.Expression {
	rules := make([]requirement.Expression, 0, len(s.MatchLabels)+len(s.MatchExpressions)+1)
	for key, value := range s.MatchLabels { // the order is settled by fold
		rules = append(rules, requirement.Expression{Key: key, Op: requirement.In, Values: []string{value}})
	}
	for _, r := range s.MatchExpressions {
		rules = append(rules, requirement.Expect(r.Key, requirement.Operator(r.Operator), r.Values))
	}
	return rules
}
