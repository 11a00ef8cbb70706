package kube

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/requirement"
)

// PodSelector selects pods by a parsed label selector and by namespaces. One Selectors returns the same pointer for selectors with the same
// meaning.
type PodSelector struct {
	anywhere   bool     // selects pods in every namespace
	namespaces []string // sorted; only read if not anywhere
	Rules      []requirement.Expression
	Nothing    bool // no pod can match
	Unreadable bool // the selector is invalid; kube-scheduler keeps its pod off all nodes
}

// Matches reports whether the selector selects pods of the namespace with these labels.
func (p *PodSelector) Matches(namespace string, labels map[string]string) bool {
	return p.looksInto(namespace) && p.MatchesLabels(labels)
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
	_, stands := labels[BufferPodLabel]
	for i := range p.Rules {
		value, ok := labels[p.Rules[i].Key]
		if !p.Rules[i].Admits(value, ok) {
			return false
		}
		stands = stands && p.Rules[i].Key != BufferPodLabel
	}
	return !stands
}

// Everything reports whether all labels match. For this selector kube-scheduler's topology spread counts no running pod, although the placed pod
// matches itself; pod affinity counts every pod.
func (p *PodSelector) Everything() bool { return !p.Nothing && len(p.Rules) == 0 }

// String returns the selector in words: "app=web, tier in (a,b)".
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

// Selectors reads selectors, and returns one object for each meaning. It is for one goroutine only.
type Selectors struct {
	all      []*corev1.Namespace // sorted by name
	known    map[string]*PodSelector
	resolved map[string]*namespaceList // the namespaces that a namespace selector matches, by its text
	lists    map[string]*namespaceList // by the names in it
	// Both select no pod.
	nowhere, unreadable *PodSelector
}

func NewSelectors(s *engine.Snapshot) *Selectors {
	sorted := slices.Clone(s.Namespaces)
	slices.SortFunc(sorted, func(a, b *corev1.Namespace) int { return strings.Compare(a.Name, b.Name) })
	return &Selectors{
		all: sorted, known: map[string]*PodSelector{}, resolved: map[string]*namespaceList{}, lists: map[string]*namespaceList{},
		nowhere: &PodSelector{Nothing: true}, unreadable: &PodSelector{Nothing: true, Unreadable: true},
	}
}

// namespaceList is a sorted list of namespaces. Equal lists are one object, because many terms select the same thousand namespaces.
type namespaceList struct {
	names []string
	id    string
}

// listOf returns the list with these names, which are sorted and different.
func (s *Selectors) listOf(names []string) *namespaceList {
	var text []byte
	for _, n := range names {
		text = append(binary.AppendUvarint(text, uint64(len(n))), n...)
	}
	list := s.lists[string(text)]
	if list == nil {
		list = &namespaceList{names, strconv.Itoa(len(s.lists))}
		s.lists[string(text)] = list
	}
	return list
}

// read returns the selector for the namespaces; nil namespaces mean all. A nil selector selects no pod.
func (s *Selectors) read(selector *metav1.LabelSelector, more []requirement.Expression, in *namespaceList) *PodSelector {
	if selector == nil {
		return s.nowhere
	}
	if SelectorProblem(selector) != "" {
		return s.unreadable
	}
	rules, ok := Intersect(append(SelectorRules(selector), more...))
	if !ok {
		return s.nowhere
	}
	text, p := make([]byte, 0, 128), &PodSelector{anywhere: in == nil, Rules: rules}
	if in != nil {
		text, p.namespaces = append(text, in.id...), in.names
	}
	text = AppendExpressions(append(text, ':'), rules)
	if known, ok := s.known[string(text)]; ok {
		return known
	}
	s.known[string(text)] = p
	return p
}

// namespacesOf lists the namespaces whose labels match.
func (s *Selectors) namespacesOf(selector *metav1.LabelSelector) *namespaceList {
	rules, ok := Intersect(SelectorRules(selector))
	if !ok {
		return s.listOf(nil)
	}
	key := string(AppendExpressions(nil, rules))
	if list, ok := s.resolved[key]; ok {
		return list
	}
	of := &PodSelector{Rules: rules}
	var names []string
	for _, n := range s.all {
		if of.MatchesLabels(n.Labels) {
			names = append(names, n.Name)
		}
	}
	s.resolved[key] = s.listOf(names)
	return s.resolved[key]
}

func isEmptySelector(s *metav1.LabelSelector) bool {
	return len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// SelectorRules returns the selector as expressions.
func SelectorRules(s *metav1.LabelSelector) []requirement.Expression {
	rules := make([]requirement.Expression, 0, len(s.MatchLabels)+len(s.MatchExpressions)+1)
	for key, value := range s.MatchLabels { // Intersect sorts them
		rules = append(rules, requirement.Expression{Key: key, Op: requirement.In, Values: []string{value}})
	}
	for _, r := range s.MatchExpressions {
		rules = append(rules, requirement.Expect(r.Key, requirement.Operator(r.Operator), r.Values))
	}
	return rules
}
