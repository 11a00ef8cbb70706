package scheduler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/kube"
)

// labelKind is a set of pods that no selector of the replay distinguishes.
type labelKind struct {
	// matched holds the matchers that match these pods.
	matched bitset.Set
}

// podConstraints holds a pod's constraints on other pods, as limits on counts.
type podConstraints struct {
	// forbidden counts must be 0 in the pod's domain. together counts must be above 0, unless no pod matches anywhere and the pod matches itself
	// (first).
	forbidden, together []*matchCount
	first               bool
	hard                []hardSpread
	soft                []softSpread
	everywhere          bool
	scores              []weighedCount
}

type hardSpread struct {
	*matchCount
	maxSkew, minDomains, self int32
}

type softSpread struct {
	*matchCount
	key     *topologyDomains
	perNode bool // the key is the hostname: each node counts alone
	maxSkew int32
}

type weighedCount struct {
	*matchCount
	weight int64
}

// labelKind returns the kind of pods with these labels.
func (state *replayState) labelKind(namespace string, set map[string]string) *labelKind {
	b := append(append(state.text[:0], namespace...), 0)
	for _, key := range state.mentioned {
		if value, ok := set[key]; ok {
			b = append(append(b, value...), 1)
		}
		b = append(b, 0)
	}
	state.text = b
	if k, ok := state.labelKinds[string(b)]; ok {
		return k
	}
	k := &labelKind{matched: bitset.New(len(state.reader.matchers))}
	state.labelKinds[string(b)] = k
	for _, m := range state.reader.matchers {
		if !slices.ContainsFunc(m.selectors, func(s *kube.PodSelector) bool { return !s.Matches(namespace, set) }) {
			k.matched.Add(m.id)
		}
	}
	return k
}

// constraintsKey identifies equal constraints.
type constraintsKey struct {
	rules  *podRules
	labels *labelKind
	filter *nodeFilter
	// hardPodAffinity is the weight from the pod's profile.
	hardPodAffinity int64
}

// constraintsOf returns the constraints of a pod that has to land, one object for equal pods.
func (state *replayState) constraintsOf(p *podInfo) *podConstraints {
	key := constraintsKey{p.rules, p.labels, p.filter, p.scoring.hardPodAffinity}
	if out, ok := state.constraints[key]; ok {
		return out
	}
	out := &podConstraints{everywhere: p.rules.everywhere}
	state.constraints[key] = out
	for _, r := range p.rules.apart {
		out.forbidden = appendOnce(out.forbidden, state.matching(r.match, r.key))
	}
	if all := p.rules.all; all != nil {
		out.first = p.labels.matched.Has(all.id)
		for _, r := range p.rules.together {
			out.together = appendOnce(out.together, state.matching(all, r.key))
		}
	}
	for _, r := range p.rules.prefer {
		out.scores = append(out.scores, weighedCount{state.matching(r.match, r.key), r.weight})
	}
	for _, h := range state.reader.held {
		switch {
		case !p.labels.matched.Has(h.match.id):
		case h.apart:
			out.forbidden = appendOnce(out.forbidden, state.owned(h))
		case h.hard:
			if weight := p.scoring.hardPodAffinity; weight > 0 {
				out.scores = append(out.scores, weighedCount{state.owned(h), weight})
			}
		default:
			out.scores = append(out.scores, weighedCount{state.owned(h), h.weight})
		}
	}
	for _, r := range p.rules.hard {
		self := int32(0)
		if p.labels.matched.Has(r.match.id) {
			self = 1
		}
		out.hard = append(out.hard, hardSpread{state.spreading(r, p.rules.hard, p.filter, true), int32(r.MaxSkew), int32(r.MinDomains), self})
	}
	for _, r := range p.rules.soft {
		out.soft = append(out.soft, state.softSpread(r, p))
	}
	return out
}

// matching returns the count of matching pods by domain of a label, over all nodes.
func (state *replayState) matching(m *matcher, key string) *matchCount {
	return state.matchCount(fmt.Sprintf("matching %d %s", m.id, key), func() *matchCount {
		t := newMatchCount(state.topology(key), nil, false)
		m.counts = append(m.counts, t)
		return t
	})
}

// owned returns the count of pods that own a term.
func (state *replayState) owned(h *heldTerm) *matchCount {
	if h.owned == nil {
		h.owned = newMatchCount(state.topology(h.key), nil, false)
	}
	return h.owned
}

// spreading returns the count of a spread constraint: the pods of its selector, on nodes that the constraint's policies include. If everywhere,
// only nodes with the labels of all siblings count.
func (state *replayState) spreading(r spreadRule, siblings []spreadRule, g *nodeFilter, everywhere bool) *matchCount {
	var keys []string
	if everywhere {
		for _, s := range siblings {
			keys = append(keys, s.Key)
		}
		slices.Sort(keys)
	}
	affine, tolerant := "", ""
	if r.HonorAffinity && !kube.AnyNode(g.terms) {
		affine = g.affinityText
	}
	if r.HonorTaints {
		tolerant = g.tolerationText
	}
	text := fmt.Sprintf("spreading %d %s %q %t %q %t %q", r.match.id, r.Key, keys, affine != "", affine, r.HonorTaints, tolerant)
	return state.matchCount(text, func() *matchCount {
		within := make([]bool, len(state.nodes))
		for i := range state.nodes {
			v := state.filterResult(g, i)
			within[i] = (affine == "" || v.affine) && (!r.HonorTaints || v.tolerated) &&
				!slices.ContainsFunc(keys, func(key string) bool { return state.topology(key).of[i] < 0 })
		}
		t := newMatchCount(state.topology(r.Key), within, true)
		if !r.Selector.Everything() { // for a selector of everything, kube-scheduler counts no running pods
			r.match.counts = append(r.match.counts, t)
		}
		return t
	})
}

func (state *replayState) softSpread(r spreadRule, p *podInfo) softSpread {
	out := softSpread{key: state.topology(r.Key), maxSkew: int32(r.MaxSkew), perNode: r.Key == corev1.LabelHostname}
	if !out.perNode {
		out.matchCount = state.spreading(r, p.rules.soft, p.filter, p.rules.everywhere)
		return out
	}
	out.matchCount = state.matchCount(fmt.Sprintf("on each node %d", r.match.id), func() *matchCount {
		t := newMatchCount(eachNode(len(state.nodes)), nil, true)
		if !r.Selector.Everything() {
			r.match.counts = append(r.match.counts, t)
		}
		return t
	})
	return out
}

func (state *replayState) matchCount(text string, make func() *matchCount) *matchCount {
	if t, ok := state.counts[text]; ok {
		return t
	}
	t := make()
	state.counts[text] = t
	return t
}

func (state *replayState) topology(key string) *topologyDomains {
	if t, ok := state.topologies[key]; ok {
		return t
	}
	t := newTopology(state.nodes, key)
	state.topologies[key] = t
	return t
}
