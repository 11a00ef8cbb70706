package engine

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/requirement"
)

// podSelector says which pods a constraint is about: a label selector that has been read, and the namespaces that it
// looks into. Selectors that mean the same have the same text, and come from one selectors as the same pointer.
type podSelector struct {
	anywhere   bool     // in every namespace
	namespaces []string // sorted; only read if not anywhere
	rules      []requirement.Expression
	nothing    bool // no pod can match
	text       string
}

// matches reports whether the selector is about the pod.
func (p *podSelector) matches(pod *corev1.Pod) bool {
	return p.looksInto(pod.Namespace) && p.matchesLabels(pod.Labels)
}

func (p *podSelector) looksInto(namespace string) bool {
	if p.anywhere {
		return true
	}
	_, ok := slices.BinarySearch(p.namespaces, namespace)
	return ok
}

func (p *podSelector) matchesLabels(labels map[string]string) bool {
	if p.nothing {
		return false
	}
	for i := range p.rules {
		value, ok := labels[p.rules[i].Key]
		if !p.rules[i].Admits(value, ok) {
			return false
		}
	}
	return true
}

// everything reports whether all labels match. kube-scheduler's topology spread counts no running pod at all for such
// a selector, although the pod that it places matches itself; pod affinity counts every pod.
func (p *podSelector) everything() bool { return !p.nothing && len(p.rules) == 0 }

// String writes the selector for people: "app=web, tier in (a,b)".
func (p *podSelector) String() string {
	if p.nothing {
		return "no labels at all"
	}
	parts := make([]string, 0, len(p.rules))
	for _, e := range p.rules {
		if e.Op == requirement.In && len(e.Values) == 1 {
			parts = append(parts, e.Key+"="+e.Values[0])
			continue
		}
		parts = append(parts, e.Key+" "+expressionText(e))
	}
	if len(parts) == 0 {
		return "any labels"
	}
	return strings.Join(parts, ", ")
}

// selectors reads selectors. Each meaning is read once and shared from then on. It is to be used from one goroutine.
type selectors struct {
	namespaces []*corev1.Namespace // by name
	known      map[string]*podSelector
	resolved   map[string][]string // names of the namespaces that a namespace selector stands for, by its text
	nowhere    *podSelector        // about no pod
}

func newSelectors(s *Snapshot) *selectors {
	sorted := slices.Clone(s.Namespaces)
	slices.SortFunc(sorted, func(a, b *corev1.Namespace) int { return strings.Compare(a.Name, b.Name) })
	return &selectors{
		namespaces: sorted, known: map[string]*podSelector{}, resolved: map[string][]string{},
		nowhere: &podSelector{nothing: true, text: "nothing"},
	}
}

// spread reads the selector of a spread constraint of the pod: pods of its own namespace. The values that the pod has
// now of matchLabelKeys are required too, as kube-scheduler does whether or not the API server has merged them already.
func (s *selectors) spread(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) (*podSelector, Reason) {
	var more []requirement.Expression
	for _, key := range c.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok {
			more = append(more, requirement.Expression{Key: key, Op: requirement.In, Values: []string{value}})
		}
	}
	return s.read(c.LabelSelector, more, []string{pod.Namespace})
}

// affinity reads the selector and the namespaces of a term of the pod's affinity or anti-affinity. The API server
// merges matchLabelKeys and mismatchLabelKeys into the selector when the pod is made, and kube-scheduler relies on it;
// for pods that no API server has seen they are merged here.
func (s *selectors) affinity(pod *corev1.Pod, t *corev1.PodAffinityTerm) (*podSelector, Reason) {
	var more []requirement.Expression
	merge := func(keys []string, op metav1.LabelSelectorOperator) {
		for _, key := range keys {
			if value, ok := pod.Labels[key]; ok && !mentions(t.LabelSelector, key, op) {
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
		if text := selectorProblem(t.NamespaceSelector); text != "" {
			return s.nowhere, Reason{Code: InvalidPod, Key: "namespaceSelector", Have: text}
		}
		namespaces = append(namespaces, s.namespacesOf(t.NamespaceSelector)...)
	} else if len(namespaces) == 0 {
		namespaces = []string{pod.Namespace}
	}
	slices.Sort(namespaces)
	namespaces = slices.Compact(namespaces)
	if len(namespaces) == 0 {
		return s.nowhere, Reason{} // a namespace selector that no namespace matches now
	}
	return s.read(t.LabelSelector, more, namespaces)
}

// mentions reports whether the selector already asks for the key in the way that the API server writes what it merges.
func mentions(selector *metav1.LabelSelector, key string, op metav1.LabelSelectorOperator) bool {
	return selector != nil && slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return r.Key == key && r.Operator == op && len(r.Values) == 1
	})
}

// read gives the selector over the sorted namespaces; none at all stand for every namespace. A nil selector is about no
// pod, and so is one that is not valid.
func (s *selectors) read(selector *metav1.LabelSelector, more []requirement.Expression, namespaces []string) (*podSelector, Reason) {
	if selector == nil {
		return s.nowhere, Reason{}
	}
	if text := selectorProblem(selector); text != "" {
		return s.nowhere, Reason{Code: InvalidPod, Key: "labelSelector", Have: text}
	}
	rules, ok := fold(append(selectorRules(selector), more...))
	if !ok {
		return s.nowhere, Reason{}
	}
	text := make([]byte, 0, 128)
	for _, n := range namespaces {
		text = strconv.AppendQuote(text, n)
	}
	text = appendExpressions(append(text, ':'), rules)
	if known, ok := s.known[string(text)]; ok {
		return known, Reason{}
	}
	p := &podSelector{anywhere: len(namespaces) == 0, namespaces: namespaces, rules: rules, text: string(text)}
	s.known[p.text] = p
	return p, Reason{}
}

// namespacesOf lists the namespaces whose labels match, by name.
func (s *selectors) namespacesOf(selector *metav1.LabelSelector) []string {
	rules, ok := fold(selectorRules(selector))
	if !ok {
		return nil
	}
	key := string(appendExpressions(nil, rules))
	if names, ok := s.resolved[key]; ok {
		return names
	}
	of := &podSelector{rules: rules}
	var names []string
	for _, n := range s.namespaces {
		if of.matchesLabels(n.Labels) {
			names = append(names, n.Name)
		}
	}
	s.resolved[key] = names
	return names
}

func isEmptySelector(s *metav1.LabelSelector) bool {
	return len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// selectorRules writes the selector as expressions.
func selectorRules(s *metav1.LabelSelector) []requirement.Expression {
	rules := make([]requirement.Expression, 0, len(s.MatchLabels)+len(s.MatchExpressions)+1)
	for key, value := range s.MatchLabels { // the order is settled by fold
		rules = append(rules, requirement.Expression{Key: key, Op: requirement.In, Values: []string{value}})
	}
	for _, r := range s.MatchExpressions {
		rules = append(rules, requirement.Expect(r.Key, requirement.Operator(r.Operator), r.Values))
	}
	return rules
}
