package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// matcher says which pods something is about: those that match all its terms.
type matcher struct {
	id    int
	terms []podTerm
	// counts count the pods that match.
	counts []*matchCount
}

// podTerm selects pods by namespace and labels.
type podTerm struct {
	namespaces        []string
	namespaceSelector labels.Selector // nil for none
	selector          labels.Selector
}

func (t *podTerm) matches(namespace string, ofNamespace, ofPod labels.Set) bool {
	if !slices.Contains(t.namespaces, namespace) && (t.namespaceSelector == nil || !t.namespaceSelector.Matches(ofNamespace)) {
		return false
	}
	return t.selector.Matches(ofPod)
}

// text tells terms apart.
func (t *podTerm) text() string {
	return fmt.Sprintf("%q %s %s", t.namespaces, selectorText(t.namespaceSelector), selectorText(t.selector))
}

// selectorText tells a selector that matches everything from one that matches nothing, which print alike.
func selectorText(s labels.Selector) string {
	switch {
	case s == nil:
		return "-"
	case s.Empty():
		return "*"
	}
	return "(" + s.String() + ")"
}

// podRules is what a pod asks of other pods.
type podRules struct {
	// apart and together are required, in any domain of key; prefer are preferred, with weights below zero for
	// anti-affinity.
	apart, together, prefer []podRule
	all                     *matcher // matches all terms of together at once
	hard, soft              []spreadRule
	// everywhere is false for the soft constraints that kube-scheduler gives to pods that name none: they leave out no
	// node that lacks a label.
	everywhere bool
	// held are the terms by which the pod, once it runs, keeps off or draws others.
	held []*heldTerm
	// invalid rules hold a selector that cannot be read: such a pod never lands.
	invalid bool
}

type podRule struct {
	match  *matcher
	key    string
	weight int64
	hard   bool // required, which counts as much as the profile of the new pod says
}

type spreadRule struct {
	match                      *matcher
	counts                     bool // false for a selector of everything, which kube-scheduler counts as nothing
	key                        string
	maxSkew, minDomains        int32
	honorAffinity, honorTaints bool
}

// heldTerm is an affinity term that pods own: it draws, or keeps off, the pods that it matches.
type heldTerm struct {
	podRule
	apart bool
	owned *matchCount
}

// ruleReader reads what pods ask of each other, once for all that ask the same.
type ruleReader struct {
	world     *replayState
	rules     map[string]*podRules
	known     map[rulesKey]*podRules
	matchers  []*matcher
	byText    map[string]*matcher
	held      []*heldTerm
	heldIndex map[string]*heldTerm
	// mentioned are the labels of pods that some selector looks at.
	mentioned map[string]bool
}

func newRuleReader(w *replayState) *ruleReader {
	return &ruleReader{world: w, rules: map[string]*podRules{}, known: map[rulesKey]*podRules{}, byText: map[string]*matcher{}, heldIndex: map[string]*heldTerm{}, mentioned: map[string]bool{}}
}

// running reads the rules of a pod that runs: only its affinity matters to others. They are nil if it has none.
func (r *ruleReader) running(pod *corev1.Pod, f *inventory.PodInfo) *podRules {
	if a := pod.Spec.Affinity; a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil {
		return nil
	}
	return r.remembered(pod, f, false, func() *podRules { return r.read(pod, false, nil) })
}

// waiting reads the rules of a pod that has to land.
func (r *ruleReader) waiting(pod *corev1.Pod, f *inventory.PodInfo) *podRules {
	return r.remembered(pod, f, true, func() *podRules {
		var owners labels.Selector
		if len(pod.Spec.TopologySpreadConstraints) == 0 {
			owners = r.world.owners.selector(pod)
		}
		return r.read(pod, true, owners)
	})
}

// rulesKey is what a pod's rules follow from. Affinity and spread are told apart by their addresses: most pods have none, and
// those of a simulation share them.
type rulesKey struct {
	waiting  bool
	scoring  *scoring // of pods that wait
	kind     *inventory.LabelClass
	affinity *corev1.Affinity
	spread   *corev1.TopologySpreadConstraint
	spreads  int
	// What the selectors of the owner follow from.
	version, ownerKind, owner string
}

// remembered are the rules of the pod, read if no other pod has told them before, or if the cache does not know it: then f is
// nil.
func (r *ruleReader) remembered(pod *corev1.Pod, f *inventory.PodInfo, waiting bool, read func() *podRules) *podRules {
	if f == nil {
		return read()
	}
	key := rulesKey{waiting: waiting, kind: f.Labels, affinity: pod.Spec.Affinity, spreads: len(pod.Spec.TopologySpreadConstraints)}
	if waiting {
		key.scoring = r.world.scoringOf(pod)
	}
	if waiting && key.spreads > 0 {
		key.spread = &pod.Spec.TopologySpreadConstraints[0]
	} else if owner := metav1.GetControllerOfNoCopy(pod); waiting && owner != nil {
		key.version, key.ownerKind, key.owner = owner.APIVersion, owner.Kind, owner.Name
	}
	rules, ok := r.known[key]
	if !ok {
		rules = read()
		r.known[key] = rules
	}
	return rules
}

func (r *ruleReader) read(pod *corev1.Pod, waiting bool, owners labels.Selector) *podRules {
	key := rulesText(pod, waiting, owners)
	if waiting {
		key = fmt.Sprint(r.world.replay.Options.ProfileOf(pod.Spec.SchedulerName), " ", key)
	}
	if rules, ok := r.rules[key]; ok {
		return rules
	}
	rules := &podRules{}
	r.rules[key] = rules
	if a := pod.Spec.Affinity; a != nil {
		r.readAffinity(pod, a, rules)
	}
	if waiting {
		r.readSpread(pod, owners, rules)
	}
	return rules
}

// rulesText tells apart pods with different rules.
func rulesText(pod *corev1.Pod, waiting bool, owners labels.Selector) string {
	spec := corev1.PodSpec{}
	var keys []string
	if a := pod.Spec.Affinity; a != nil {
		spec.Affinity = &corev1.Affinity{PodAffinity: a.PodAffinity, PodAntiAffinity: a.PodAntiAffinity}
		for _, t := range slices.Concat(affinityTerms(a), antiAffinityTerms(a)) {
			keys = append(keys, slices.Concat(t.term.MatchLabelKeys, t.term.MismatchLabelKeys)...)
		}
	}
	if waiting {
		spec.TopologySpreadConstraints = pod.Spec.TopologySpreadConstraints
		for _, c := range spec.TopologySpreadConstraints {
			keys = append(keys, c.MatchLabelKeys...)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%t %s %s", waiting, pod.Namespace, selectorText(owners))
	for _, k := range keys {
		value, ok := pod.Labels[k]
		fmt.Fprintf(&b, " %q %t", value, ok)
	}
	text, _ := spec.Marshal() // writing to memory cannot fail
	return b.String() + "\x00" + string(text)
}

// weighedTerm is an affinity term with its weight, 0 for a required one.
type weighedTerm struct {
	term   *corev1.PodAffinityTerm
	weight int64
}

func affinityTerms(a *corev1.Affinity) (out []weighedTerm) {
	if a.PodAffinity == nil {
		return nil
	}
	return weighedTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
}

func antiAffinityTerms(a *corev1.Affinity) (out []weighedTerm) {
	if a.PodAntiAffinity == nil {
		return nil
	}
	return weighedTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
}

func weighedTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) (out []weighedTerm) {
	for i := range required {
		out = append(out, weighedTerm{&required[i], 0})
	}
	for i := range preferred {
		if preferred[i].Weight != 0 {
			out = append(out, weighedTerm{&preferred[i].PodAffinityTerm, int64(preferred[i].Weight)})
		}
	}
	return out
}

func (r *ruleReader) readAffinity(pod *corev1.Pod, a *corev1.Affinity, rules *podRules) {
	var all []podTerm
	for _, t := range affinityTerms(a) {
		term, ok := r.term(pod, t.term)
		if !ok {
			rules.invalid = true
			continue
		}
		rule := podRule{match: r.matcher(term), key: t.term.TopologyKey, weight: t.weight}
		if t.weight != 0 {
			rules.prefer = append(rules.prefer, rule)
		} else {
			rules.together = append(rules.together, rule)
			all = append(all, term)
			rule.hard = true
		}
		rules.held = append(rules.held, r.hold(rule, false))
	}
	if len(all) > 0 {
		rules.all = r.matcher(all...)
	}
	for _, t := range antiAffinityTerms(a) {
		term, ok := r.term(pod, t.term)
		if !ok {
			rules.invalid = true
			continue
		}
		rule := podRule{match: r.matcher(term), key: t.term.TopologyKey, weight: -t.weight}
		if t.weight != 0 {
			rules.prefer = append(rules.prefer, rule)
		} else {
			rules.apart = append(rules.apart, rule)
		}
		rules.held = append(rules.held, r.hold(rule, t.weight == 0))
	}
}

// term reads one affinity term of a pod. Label keys that it has in common with, or not with, the pod are part of the
// selector.
func (r *ruleReader) term(pod *corev1.Pod, t *corev1.PodAffinityTerm) (podTerm, bool) {
	selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
	if err != nil {
		return podTerm{}, false
	}
	out := podTerm{namespaces: slices.Clone(t.Namespaces)}
	slices.Sort(out.namespaces)
	if t.NamespaceSelector != nil {
		if out.namespaceSelector, err = metav1.LabelSelectorAsSelector(t.NamespaceSelector); err != nil {
			return podTerm{}, false
		}
	} else if len(out.namespaces) == 0 {
		out.namespaces = []string{pod.Namespace}
	}
	// What the API server has merged holds, whatever labels the pod has got since.
	match, mismatch := kube.Unmerged(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn), kube.Unmerged(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	out.selector = withKeys(withKeys(selector, pod, match, selection.In), pod, mismatch, selection.NotIn)
	return out, true
}

// withKeys narrows a selector to pods that have, or have not, the pod's own values of the keys.
func withKeys(s labels.Selector, pod *corev1.Pod, keys []string, op selection.Operator) labels.Selector {
	if _, selectable := s.Requirements(); !selectable {
		return s
	}
	for _, key := range keys {
		value, ok := pod.Labels[key]
		if !ok {
			continue
		}
		if requirement, err := labels.NewRequirement(key, op, []string{value}); err == nil {
			s = s.Add(*requirement)
		}
	}
	return s
}

// matcher interns a set of terms.
func (r *ruleReader) matcher(terms ...podTerm) *matcher {
	texts := make([]string, 0, len(terms))
	for i := range terms {
		texts = append(texts, terms[i].text())
		requirements, _ := terms[i].selector.Requirements()
		for _, q := range requirements {
			r.mentioned[q.Key()] = true
		}
	}
	slices.Sort(texts)
	key := strings.Join(slices.Compact(texts), "\n")
	m, ok := r.byText[key]
	if !ok {
		m = &matcher{id: len(r.matchers), terms: terms}
		r.byText[key] = m
		r.matchers = append(r.matchers, m)
	}
	return m
}

// hold interns a term that pods own.
func (r *ruleReader) hold(rule podRule, apart bool) *heldTerm {
	key := fmt.Sprintf("%d %s %d %t %t", rule.match.id, rule.key, rule.weight, rule.hard, apart)
	h, ok := r.heldIndex[key]
	if !ok {
		h = &heldTerm{podRule: rule, apart: apart}
		r.heldIndex[key] = h
		r.held = append(r.held, h)
	}
	return h
}
