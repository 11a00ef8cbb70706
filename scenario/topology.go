package scenario

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
)

// This file reads the relations between pods: spreads, affinity and anti-affinity.

// topologyTerm has the common parts of a spread and an affinity term: spread=zone, or apart=(hostname of=app:x).
type topologyTerm struct {
	key       string
	selector  *metav1.LabelSelector // nil for the pods of the statement
	matchKeys []string
	rest      []word // words that only one of the two has
}

// topologyTerm reads spread=LABEL or spread=(LABEL words).
func (w word) topologyTerm() (topologyTerm, error) {
	key, value := w.cut()
	if value == "" {
		return topologyTerm{}, w.errorf("a label is missing: write %s=zone or %s=(zone of=app:x)", key, key)
	}
	if !strings.HasPrefix(value, "(") {
		return topologyTerm{key: labelKey(value)}, nil
	}
	r, err := w.group(key)
	if err != nil {
		return topologyTerm{}, err
	}
	if !r.more() || strings.ContainsAny(r.peek(), "=(") || r.atRequirement() {
		return topologyTerm{}, w.errorf("the label comes first: write %s=(zone of=app:x)", key)
	}
	t := topologyTerm{key: labelKey(r.next().text)}
	for r.more() {
		if err := t.word(r); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (t *topologyTerm) word(r *reader) error {
	if r.atRequirement() {
		w := r.words[r.at]
		req, err := r.requirement()
		if err != nil {
			return err
		}
		return addExpression(t.selects(), req, w)
	}
	w := r.next()
	switch key, value := w.cut(); key {
	case "of":
		if t.selects(); value != "*" {
			w.addLabels(&t.selector.MatchLabels)
		}
	case "match-keys":
		t.matchKeys = append(t.matchKeys, w.labelKeys()...)
	default:
		t.rest = append(t.rest, w)
	}
	return nil
}

// selects returns the term's own selector. A selector without conditions selects every pod.
func (t *topologyTerm) selects() *metav1.LabelSelector {
	if t.selector == nil {
		t.selector = &metav1.LabelSelector{}
	}
	return t.selector
}

func addExpression(to *metav1.LabelSelector, req v1.Requirement, w word) error {
	if req.Operator.Numeric() {
		return w.errorf("pods are selected with in, notin, exists and absent only")
	}
	to.MatchExpressions = append(to.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: req.Key, Operator: metav1.LabelSelectorOperator(req.Operator), Values: req.Values,
	})
	return nil
}

// labelKeys reads a list of labels.
func (w word) labelKeys() []string {
	var out []string
	for _, key := range w.list() {
		out = append(out, labelKey(key))
	}
	return out
}

// spreadConstraint reads spread=zone or spread=(zone skew=2 soft min=3 of=app:x). fallback selects the pods if the word does not.
func (w word) spreadConstraint(fallback *metav1.LabelSelector) (corev1.TopologySpreadConstraint, error) {
	t, err := w.topologyTerm()
	c := corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: t.key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: t.selector, MatchLabelKeys: t.matchKeys,
	}
	if err != nil {
		return c, err
	}
	if c.LabelSelector == nil {
		c.LabelSelector = fallback
	}
	for _, w := range t.rest {
		if err := w.spreadWord(&c); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (w word) spreadWord(c *corev1.TopologySpreadConstraint) error {
	key, _ := w.cut()
	switch key {
	case "soft":
		c.WhenUnsatisfiable = corev1.ScheduleAnyway
	case "skew":
		n, err := w.number32()
		c.MaxSkew = n
		return err
	case "min":
		n, err := w.number32()
		c.MinDomains = &n
		return err
	case "affinity-policy":
		policy, err := w.inclusion()
		c.NodeAffinityPolicy = &policy
		return err
	case "taints-policy":
		policy, err := w.inclusion()
		c.NodeTaintsPolicy = &policy
		return err
	default:
		return w.errorf("spread has no such word; it has skew= soft min= affinity-policy= taints-policy= match-keys= of= and " +
			"requirements on the labels of pods")
	}
	return nil
}

func (w word) inclusion() (corev1.NodeInclusionPolicy, error) {
	_, value := w.cut()
	switch strings.ToLower(value) {
	case "honor":
		return corev1.NodeInclusionPolicyHonor, nil
	case "ignore":
		return corev1.NodeInclusionPolicyIgnore, nil
	}
	return "", w.errorf("the policy is honor or ignore")
}

// spread adds a topology spread constraint.
func (p *podLine) spread(w word) error {
	c, err := w.spreadConstraint(p.selector())
	p.pod.Spec.TopologySpreadConstraints = append(p.pod.Spec.TopologySpreadConstraints, c)
	return err
}

// selector selects the pods of the statement.
func (p *podLine) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.name}}
}

// podAffinity reads together=zone and apart=(hostname of=app:x weight=10). A term with a weight is a preference.
func (p *podLine) podAffinity(w word) error {
	t, err := w.topologyTerm()
	if err != nil {
		return err
	}
	term := corev1.PodAffinityTerm{TopologyKey: t.key, LabelSelector: t.selector, MatchLabelKeys: t.matchKeys}
	if term.LabelSelector == nil {
		term.LabelSelector = p.selector()
	}
	weight := int32(0)
	for _, w := range t.rest {
		if err := w.affinityWord(&term, &weight); err != nil {
			return err
		}
	}
	if how, _ := w.cut(); how == "together" {
		a := p.affinity()
		a.PodAffinity = ptr.To(ptr.Deref(a.PodAffinity, corev1.PodAffinity{}))
		addTerm(&a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, &a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, term, weight)
		return nil
	}
	a := p.affinity()
	a.PodAntiAffinity = ptr.To(ptr.Deref(a.PodAntiAffinity, corev1.PodAntiAffinity{}))
	addTerm(&a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, &a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, term, weight)
	return nil
}

func addTerm(required *[]corev1.PodAffinityTerm, preferred *[]corev1.WeightedPodAffinityTerm, term corev1.PodAffinityTerm, weight int32) {
	if weight == 0 {
		*required = append(*required, term)
		return
	}
	*preferred = append(*preferred, corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: term})
}

func (w word) affinityWord(term *corev1.PodAffinityTerm, weight *int32) error {
	key, _ := w.cut()
	switch key {
	case "ns":
		term.Namespaces = append(term.Namespaces, w.list()...)
	case "all-ns":
		term.NamespaceSelector = &metav1.LabelSelector{}
	case "ns-labels":
		term.NamespaceSelector = &metav1.LabelSelector{}
		w.addLabels(&term.NamespaceSelector.MatchLabels)
	case "mismatch-keys":
		term.MismatchLabelKeys = append(term.MismatchLabelKeys, w.labelKeys()...)
	case "weight":
		n, err := w.number32()
		if err == nil && (n < 1 || n > 100) {
			err = w.errorf("a weight is from 1 to 100")
		}
		*weight = n
		return err
	default:
		return w.errorf("together and apart have no such word; they have of= ns= all-ns ns-labels= match-keys= mismatch-keys= weight= " +
			"and requirements on the labels of pods")
	}
	return nil
}
