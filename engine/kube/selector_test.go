package kube

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
)

func labelled(namespace string, pairs ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{}}}
	for i := 0; i+1 < len(pairs); i += 2 {
		pod.Labels[pairs[i]] = pairs[i+1]
	}
	return pod
}

// over is the list of the namespaces, nil for all.
func (s *Selectors) over(namespaces ...string) *namespaceList {
	if len(namespaces) == 0 {
		return nil
	}
	return s.listOf(namespaces)
}

func TestSelectorsMatchAsKubernetesDoes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	s := NewSelectors(&engine.Snapshot{})
	for range 20000 {
		selector := drawSelector(r)
		reference, err := metav1.LabelSelectorAsSelector(selector)
		own := s.read(selector, nil, s.over("default"))
		if (err != nil) != own.Unreadable {
			t.Fatalf("%v: unreadable %t, Kubernetes says %v", selector, own.Unreadable, err)
		}
		for range 4 {
			pod := drawLabelled(r)
			want := err == nil && pod.Namespace == "default" && reference.Matches(labels.Set(pod.Labels))
			if own.Matches(pod.Namespace, pod.Labels) != want {
				t.Fatalf("%v matches %v: %v, want %v", selector, pod.Labels, !want, want)
			}
		}
	}
}

func drawLabelled(r *rand.Rand) *corev1.Pod {
	pod := labelled([]string{"default", "other"}[r.IntN(2)])
	for _, key := range []string{"app", "tier"} {
		if r.IntN(3) > 0 {
			pod.Labels[key] = []string{"", "1", "01", "web"}[r.IntN(4)]
		}
	}
	return pod
}

func drawSelector(r *rand.Rand) *metav1.LabelSelector {
	if r.IntN(20) == 0 {
		return nil
	}
	s := &metav1.LabelSelector{}
	values := []string{"", "1", "01", "web", "web"}
	if r.IntN(30) == 0 {
		values = []string{"not a value"}
	}
	if r.IntN(2) == 0 {
		s.MatchLabels = map[string]string{"app": values[r.IntN(len(values))]}
	}
	ops := []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
	}
	for range r.IntN(3) {
		e := metav1.LabelSelectorRequirement{Key: []string{"app", "tier"}[r.IntN(2)], Operator: ops[r.IntN(4)]}
		for range r.IntN(3) {
			e.Values = append(e.Values, values[r.IntN(len(values))])
		}
		if e.Operator != metav1.LabelSelectorOpIn && e.Operator != metav1.LabelSelectorOpNotIn && r.IntN(10) > 0 {
			e.Values = nil
		}
		if r.IntN(40) == 0 {
			e.Operator = "Gt"
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s
}

func TestAffinitySelectsPods(t *testing.T) {
	t.Parallel()
	s := NewSelectors(enginetest.ReadObjects(t, `
kind: Namespace
metadata: {name: red, labels: {team: red}}
---
kind: Namespace
metadata: {name: blue, labels: {team: blue}}
---
kind: Namespace
metadata: {name: default}
`))
	own := labelled("default", "app", "web", "version", "2")
	for _, c := range []struct {
		name, term string
		yes, no    []*corev1.Pod
	}{
		{"no selector selects nothing", `{}`, nil, []*corev1.Pod{own}},
		{"an empty selector selects every pod of the namespace", `labelSelector: {}`, []*corev1.Pod{own, labelled("default")}, []*corev1.Pod{labelled("red")}},
		{"listed namespaces replace the pod's own", `{labelSelector: {}, namespaces: [red]}`, []*corev1.Pod{labelled("red")}, []*corev1.Pod{own}},
		{"an empty namespace selector means everywhere", `{labelSelector: {}, namespaceSelector: {}}`, []*corev1.Pod{own, labelled("red"), labelled("unknown")}, nil},
		{"a namespace selector goes by labels", `{labelSelector: {}, namespaceSelector: {matchLabels: {team: red}}}`, []*corev1.Pod{labelled("red")}, []*corev1.Pod{own, labelled("blue")}},
		{"a namespace selector and a list are added up", `{labelSelector: {}, namespaces: [default], namespaceSelector: {matchLabels: {team: red}}}`, []*corev1.Pod{labelled("red"), own}, []*corev1.Pod{labelled("blue")}},
		{"no such namespace", `{labelSelector: {}, namespaceSelector: {matchLabels: {team: green}}}`, nil, []*corev1.Pod{own, labelled("red")}},
		{"matchLabelKeys", `{labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version, absent]}`, []*corev1.Pod{own}, []*corev1.Pod{labelled("default", "app", "web", "version", "1")}},
		{"mismatchLabelKeys", `{labelSelector: {matchLabels: {app: web}}, mismatchLabelKeys: [version]}`, []*corev1.Pod{labelled("default", "app", "web"), labelled("default", "app", "web", "version", "1")}, []*corev1.Pod{own}},
		{"matchLabelKeys of no selector", `{matchLabelKeys: [version]}`, nil, []*corev1.Pod{own}},
		{"what the API server has merged stays", `{labelSelector: {matchExpressions: [{key: version, operator: In, values: ["1"]}]}, matchLabelKeys: [version]}`, []*corev1.Pod{labelled("default", "version", "1")}, []*corev1.Pod{own}},
		{"numbers are text", `{labelSelector: {matchLabels: {version: "02"}}}`, nil, []*corev1.Pod{own}},
		{"a contradiction", `{labelSelector: {matchLabels: {app: web}, matchExpressions: [{key: app, operator: NotIn, values: [web]}]}}`, nil, []*corev1.Pod{own, labelled("default")}},
	} {
		term := &corev1.PodAffinityTerm{}
		enginetest.Parse(t, c.term, term)
		checkSelects(t, c.name, s.term(own, term).Selector, c.yes, c.no)
	}
}

func checkSelects(t *testing.T, name string, selector *PodSelector, yes, no []*corev1.Pod) {
	t.Helper()
	for _, pod := range yes {
		if !selector.Matches(pod.Namespace, pod.Labels) {
			t.Errorf("%s: %s/%v is not selected", name, pod.Namespace, pod.Labels)
		}
	}
	for _, pod := range no {
		if selector.Matches(pod.Namespace, pod.Labels) {
			t.Errorf("%s: %s/%v is selected", name, pod.Namespace, pod.Labels)
		}
	}
}

func TestSpreadSelectsPods(t *testing.T) {
	t.Parallel()
	s := NewSelectors(&engine.Snapshot{})
	own := labelled("default", "app", "web", "version", "2")
	for _, c := range []struct {
		name, constraint string
		yes, no          []*corev1.Pod
	}{
		{"the pod's own namespace", `labelSelector: {matchLabels: {app: web}}`, []*corev1.Pod{own}, []*corev1.Pod{labelled("red", "app", "web")}},
		{"matchLabelKeys", `{labelSelector: {}, matchLabelKeys: [version, absent]}`, []*corev1.Pod{own}, []*corev1.Pod{labelled("default", "version", "1")}},
		{"matchLabelKeys merged before", `{labelSelector: {matchExpressions: [{key: version, operator: In, values: ["2"]}]}, matchLabelKeys: [version]}`, []*corev1.Pod{own}, []*corev1.Pod{labelled("default", "version", "1")}},
		{"matchLabelKeys merged before the label was changed", `{labelSelector: {matchExpressions: [{key: version, operator: In, values: ["1"]}]}, matchLabelKeys: [version]}`, nil, []*corev1.Pod{own, labelled("default", "version", "1")}},
		{"no selector", `matchLabelKeys: [version]`, nil, []*corev1.Pod{own}},
	} {
		constraint := &corev1.TopologySpreadConstraint{}
		enginetest.Parse(t, c.constraint, constraint)
		checkSelects(t, c.name, s.SpreadOf(own, constraint).Selector, c.yes, c.no)
	}
	all := s.SpreadOf(own, &corev1.TopologySpreadConstraint{LabelSelector: &metav1.LabelSelector{}}).Selector
	none := s.SpreadOf(own, &corev1.TopologySpreadConstraint{}).Selector
	if !all.Everything() || none.Everything() {
		t.Error("everything is said of the wrong selector")
	}
}

func TestInvalidSelectorsSelectNothingAndSayWhy(t *testing.T) {
	t.Parallel()
	s := NewSelectors(&engine.Snapshot{})
	own := labelled("default", "app", "web")
	for _, c := range []struct{ term, key, have string }{
		{`labelSelector: {matchExpressions: [{key: app, operator: Near, values: [a]}]}`, "labelSelector", `the operator "Near" does not exist`},
		{`labelSelector: {matchExpressions: [{key: app, operator: Gt, values: ["1"]}]}`, "labelSelector", `not one that label selectors have`},
		{`labelSelector: {matchExpressions: [{key: app, operator: In}]}`, "labelSelector", `In needs values`},
		{`labelSelector: {matchExpressions: [{key: app, operator: Exists, values: [a]}]}`, "labelSelector", `Exists takes no values`},
		{`labelSelector: {matchLabels: {"not a key": x}}`, "labelSelector", `"not a key" is not a label key`},
		{`labelSelector: {matchLabels: {"": x}}`, "labelSelector", `"" is not a label key`},
		{`labelSelector: {matchLabels: {app: "not a value"}}`, "labelSelector", `"not a value" is not a label value`},
		{`{labelSelector: {}, namespaceSelector: {matchExpressions: [{key: team, operator: In}]}}`, "namespaceSelector", `In needs values`},
	} {
		term := &corev1.PodAffinityTerm{}
		enginetest.Parse(t, c.term, term)
		if field, text := termSelectorProblem(term); field != c.key || !strings.Contains(text, c.have) {
			t.Errorf("%s: %s %s", c.term, field, text)
		}
		selector := s.term(own, term).Selector
		if !selector.Unreadable || selector.Matches(own.Namespace, own.Labels) || selector.Matches("default", nil) {
			t.Errorf("%s selects something", c.term)
		}
	}
}

func TestEqualSelectorsAreOne(t *testing.T) {
	t.Parallel()
	s := NewSelectors(&engine.Snapshot{})
	read := func(selector string, namespaces ...string) *PodSelector {
		l := &metav1.LabelSelector{}
		enginetest.Parse(t, selector, l)
		return s.read(l, nil, s.over(namespaces...))
	}
	one := read(`{matchLabels: {a: x, b: y}}`, "default")
	for _, same := range []string{
		`{matchLabels: {b: y, a: x}}`,
		`{matchExpressions: [{key: b, operator: In, values: [y, y]}, {key: a, operator: In, values: [x]}]}`,
		`{matchLabels: {a: x, b: y}, matchExpressions: [{key: b, operator: Exists}, {key: a, operator: NotIn, values: [z]}]}`,
	} {
		if read(same, "default") != one {
			t.Errorf("%s is another selector", same)
		}
	}
	if read(`{matchLabels: {a: x, b: y}}`, "other") == one || read(`{matchLabels: {a: x, b: y}}`) == one || read(`{matchLabels: {a: x}}`, "default") == one {
		t.Error("different selectors are taken for one")
	}
}

func TestSelectorIndexFindsWhatTryingAllFinds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		s := NewSelectors(&engine.Snapshot{})
		var all []*PodSelector
		for range r.IntN(30) {
			var namespaces []string // everywhere
			switch r.IntN(4) {
			case 0:
				namespaces = []string{"default"}
			case 1:
				namespaces = []string{"default", "other"}
			case 2:
				for i := range 12 {
					namespaces = append(namespaces, fmt.Sprintf("n%02d", i))
				}
				namespaces = append(namespaces, "other")
			}
			all = append(all, s.read(drawSelector(r), nil, s.over(namespaces...)))
		}
		index := NewSelectorIndex(all)
		for range 20 {
			pod := drawLabelled(r)
			want := []int{-1}
			for i, p := range all {
				if p.Matches(pod.Namespace, pod.Labels) {
					want = append(want, i)
				}
			}
			if got := index.Match(pod, []int{-1}); !slices.Equal(got, want) {
				t.Fatalf("%s/%v: found %v, want %v", pod.Namespace, pod.Labels, got, want)
			}
		}
	}
}
