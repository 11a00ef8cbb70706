package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// matcher matches the pods that all its selectors match.
type matcher struct {
	id        int
	selectors []*kube.PodSelector
	// counts are the counts of the matched pods.
	counts []*matchCount
}

// podRules holds a pod's rules on other pods.
type podRules struct {
	// apart and together are required rules, each about the domains of its key; prefer are preferred ones, with weights below zero for
	// anti-affinity.
	apart, together, prefer []podRule
	all                     *matcher // a pod that meets all terms of `together`; nil without these
	hard, soft              []spreadRule
	// everywhere is false for the soft default constraints that kube-scheduler gives to pods without constraints: they also score nodes without
	// the labels.
	everywhere bool
	// held are the pod's own terms, which repel or attract other pods once it runs.
	held []*heldTerm
	// invalid means that a selector cannot be read: the pod never lands.
	invalid bool
}

type podRule struct {
	match  *matcher
	key    string
	weight int64
	hard   bool // required; its weight for other pods comes from their profile
}

type spreadRule struct {
	kube.SpreadConstraint
	match *matcher
}

// heldTerm is an affinity term that pods own: it attracts or repels the pods that it matches.
type heldTerm struct {
	podRule
	apart bool
	owned *matchCount
}

// ruleReader reads the pods' rules on other pods, once for all pods with equal rules.
type ruleReader struct {
	world     *replayState
	rules     map[string]*podRules
	known     map[rulesKey]*podRules
	key       inventory.KeyWriter
	selectors *kube.Selectors
	defaults  *kube.DefaultSpreads
	matchers  []*matcher
	of        map[*kube.PodSelector]*matcher
	joint     map[string]*matcher // matchers of several selectors
	held      []*heldTerm
	heldIndex map[string]*heldTerm
	// mentioned are the pod labels that some selector reads.
	mentioned map[string]bool
}

func newRuleReader(s *replayState) *ruleReader {
	return &ruleReader{
		world: s, rules: map[string]*podRules{}, known: map[rulesKey]*podRules{}, selectors: kube.NewSelectors(s.replay.Snapshot), defaults: kube.NewDefaultSpreads(s.replay.Snapshot, s.replay.Options),
		of: map[*kube.PodSelector]*matcher{}, joint: map[string]*matcher{}, heldIndex: map[string]*heldTerm{}, mentioned: map[string]bool{},
	}
}

// running reads the rules of a running pod: only its affinity matters to other pods. They are nil if it has none.
func (r *ruleReader) running(pod *corev1.Pod, info *inventory.PodInfo) *podRules {
	if a := pod.Spec.Affinity; a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil {
		return nil
	}
	return r.remembered(pod, info, false, func() *podRules { return r.read(pod, nil, false) })
}

// waiting reads the rules of a pod that has to land.
func (r *ruleReader) waiting(pod *corev1.Pod, info *inventory.PodInfo) *podRules {
	return r.remembered(pod, info, true, func() *podRules {
		if system := r.defaults.SystemConstraintsOf(pod); len(system) > 0 {
			return r.read(pod, system, false)
		}
		return r.read(pod, r.defaults.ConstraintsOf(pod), true)
	})
}

// rulesKey determines a pod's rules. Affinity and spread constraints are compared by address, because most pods have none, and pods of a
// simulation share theirs.
type rulesKey struct {
	waiting  bool
	scoring  *scoring // the profile of a waiting pod
	kind     *inventory.LabelClass
	affinity *corev1.Affinity
	spread   *corev1.TopologySpreadConstraint
	spreads  int
	// The pod's owner, which determines the default selectors.
	version, ownerKind, owner string
}

// remembered returns the pod's rules from an earlier pod with the same key. It reads them if there is none, or if the cache does not know the
// pod: then info is nil.
func (r *ruleReader) remembered(pod *corev1.Pod, info *inventory.PodInfo, waiting bool, read func() *podRules) *podRules {
	if info == nil {
		return read()
	}
	key := rulesKey{waiting: waiting, kind: info.Labels, affinity: pod.Spec.Affinity, spreads: len(pod.Spec.TopologySpreadConstraints)}
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

// read reads the rules of a pod with these spread constraints; everywhere is false for kube-scheduler's own default constraints.
func (r *ruleReader) read(pod *corev1.Pod, spreads []corev1.TopologySpreadConstraint, everywhere bool) *podRules {
	key := fmt.Sprintf("%t %s", everywhere, r.key.Rules(pod, spreads))
	if rules, ok := r.rules[key]; ok {
		return rules
	}
	rules := &podRules{everywhere: everywhere}
	r.rules[key] = rules
	r.readAffinity(pod, rules)
	for i := range spreads {
		rule := spreadRule{SpreadConstraint: r.selectors.SpreadOf(pod, &spreads[i])}
		rule.match = r.matcher(rule.Selector)
		rules.invalid = rules.invalid || rule.Selector.Unreadable
		if rule.Soft {
			rules.soft = append(rules.soft, rule)
		} else {
			rules.hard = append(rules.hard, rule)
		}
	}
	return rules
}

func (r *ruleReader) readAffinity(pod *corev1.Pod, rules *podRules) {
	rule := func(t kube.AffinityTerm, weight int) podRule {
		rules.invalid = rules.invalid || t.Selector.Unreadable
		return podRule{match: r.matcher(t.Selector), key: t.Key, weight: int64(weight)}
	}
	prefer := func(terms []kube.WeightedAffinityTerm, sign int) {
		for _, t := range terms {
			if t.Weight != 0 {
				p := rule(t.AffinityTerm, sign*t.Weight)
				rules.prefer, rules.held = append(rules.prefer, p), append(rules.held, r.hold(p, false))
			}
		}
	}
	near, apart := r.selectors.AffinityOf(pod), r.selectors.AntiAffinityOf(pod)
	var all []*matcher
	for _, t := range near.Required {
		p := rule(t, 0)
		rules.together, all = append(rules.together, p), append(all, p.match)
		p.hard = true
		rules.held = append(rules.held, r.hold(p, false))
	}
	if len(all) > 0 {
		rules.all = r.allOf(all)
	}
	prefer(near.Preferred, 1)
	for _, t := range apart.Required {
		p := rule(t, 0)
		rules.apart, rules.held = append(rules.apart, p), append(rules.held, r.hold(p, true))
	}
	prefer(apart.Preferred, -1)
}

// matcher returns the matcher of one selector.
func (r *ruleReader) matcher(s *kube.PodSelector) *matcher {
	m, ok := r.of[s]
	if !ok {
		m = r.newMatcher(s)
		r.of[s] = m
	}
	return m
}

func (r *ruleReader) newMatcher(selectors ...*kube.PodSelector) *matcher {
	m := &matcher{id: len(r.matchers), selectors: selectors}
	r.matchers = append(r.matchers, m)
	for _, s := range selectors {
		for i := range s.Rules {
			r.mentioned[s.Rules[i].Key] = true
		}
	}
	return m
}

// allOf returns the matcher of the pods that all these matchers match; each has one selector.
func (r *ruleReader) allOf(list []*matcher) *matcher {
	slices.SortFunc(list, func(a, b *matcher) int { return cmp.Compare(a.id, b.id) })
	list = slices.Compact(list)
	if len(list) == 1 {
		return list[0]
	}
	var key []byte
	var selectors []*kube.PodSelector
	for _, m := range list {
		key, selectors = append(strconv.AppendInt(key, int64(m.id), 10), ' '), append(selectors, m.selectors...)
	}
	m, ok := r.joint[string(key)]
	if !ok {
		m = r.newMatcher(selectors...)
		r.joint[string(key)] = m
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
