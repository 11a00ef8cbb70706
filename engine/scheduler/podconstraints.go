package scheduler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/kube"
)

// labelKind is a sort of pod to every selector of the replay.
type labelKind struct {
	// matched holds the matchers that match such pods.
	matched bitset.Set
}

// podConstraints is what a pod asks of the pods on and around a node, in terms of counts.
type podConstraints struct {
	// forbidden counts must be 0 where the pod goes; together, above 0, unless nothing matches anywhere and the pod
	// itself does (first).
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
	perNode bool // hostnames: every node counts by itself
	maxSkew int32
}

type weighedCount struct {
	*matchCount
	weight int64
}

// labelKind interns what a pod's labels mean to the selectors.
func (w *replayState) labelKind(namespace string, set map[string]string) *labelKind {
	b := append(append(w.text[:0], namespace...), 0)
	for _, key := range w.mentioned {
		if value, ok := set[key]; ok {
			b = append(append(b, value...), 1)
		}
		b = append(b, 0)
	}
	w.text = b
	if k, ok := w.labelKinds[string(b)]; ok {
		return k
	}
	k := &labelKind{matched: bitset.New(len(w.reader.matchers))}
	w.labelKinds[string(b)] = k
	for _, m := range w.reader.matchers {
		if !slices.ContainsFunc(m.selectors, func(s *kube.PodSelector) bool { return !s.Matches(namespace, set) }) {
			k.matched.Add(m.id)
		}
	}
	return k
}

// constraintsKey tells constraints apart.
type constraintsKey struct {
	rules  *podRules
	labels *labelKind
	filter *nodeFilter
	// hardPodAffinity is that of the pod's profile.
	hardPodAffinity int64
}

// constraintsOf interns the constraints of a pod that has to land.
func (w *replayState) constraintsOf(p *podInfo) *podConstraints {
	key := constraintsKey{p.rules, p.labels, p.filter, p.scoring.hardPodAffinity}
	if out, ok := w.constraints[key]; ok {
		return out
	}
	out := &podConstraints{everywhere: p.rules.everywhere}
	w.constraints[key] = out
	for _, r := range p.rules.apart {
		out.forbidden = appendOnce(out.forbidden, w.matching(r.match, r.key))
	}
	if all := p.rules.all; all != nil {
		out.first = p.labels.matched.Has(all.id)
		for _, r := range p.rules.together {
			out.together = appendOnce(out.together, w.matching(all, r.key))
		}
	}
	for _, r := range p.rules.prefer {
		out.scores = append(out.scores, weighedCount{w.matching(r.match, r.key), r.weight})
	}
	for _, h := range w.reader.held {
		switch {
		case !p.labels.matched.Has(h.match.id):
		case h.apart:
			out.forbidden = appendOnce(out.forbidden, w.owned(h))
		case h.hard:
			if weight := p.scoring.hardPodAffinity; weight > 0 {
				out.scores = append(out.scores, weighedCount{w.owned(h), weight})
			}
		default:
			out.scores = append(out.scores, weighedCount{w.owned(h), h.weight})
		}
	}
	for _, r := range p.rules.hard {
		self := int32(0)
		if p.labels.matched.Has(r.match.id) {
			self = 1
		}
		out.hard = append(out.hard, hardSpread{w.spreading(r, p.rules.hard, p.filter, true), int32(r.MaxSkew), int32(r.MinDomains), self})
	}
	for _, r := range p.rules.soft {
		out.soft = append(out.soft, w.softSpread(r, p))
	}
	return out
}

// matching is the count of pods that match, by domain of a label, on all nodes.
func (w *replayState) matching(m *matcher, key string) *matchCount {
	return w.matchCount(fmt.Sprintf("matching %d %s", m.id, key), func() *matchCount {
		t := newMatchCount(w.topology(key), nil, false)
		m.counts = append(m.counts, t)
		return t
	})
}

// owned is the count of pods that own a term.
func (w *replayState) owned(h *heldTerm) *matchCount {
	if h.owned == nil {
		h.owned = newMatchCount(w.topology(h.key), nil, false)
	}
	return h.owned
}

// spreading is the count that a spread constraint goes by: pods of the selector on nodes that have the labels of all
// the pod's constraints of that kind and that the pod could use, as far as its policies say.
func (w *replayState) spreading(r spreadRule, siblings []spreadRule, g *nodeFilter, everywhere bool) *matchCount {
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
	return w.matchCount(text, func() *matchCount {
		within := make([]bool, len(w.nodes))
		for i := range w.nodes {
			v := w.filterResult(g, i)
			within[i] = (affine == "" || v.affine) && (!r.HonorTaints || v.tolerated) &&
				!slices.ContainsFunc(keys, func(key string) bool { return w.topology(key).of[i] < 0 })
		}
		t := newMatchCount(w.topology(r.Key), within, true)
		if !r.Selector.Everything() { // kube-scheduler counts these as nothing
			r.match.counts = append(r.match.counts, t)
		}
		return t
	})
}

func (w *replayState) softSpread(r spreadRule, p *podInfo) softSpread {
	out := softSpread{key: w.topology(r.Key), maxSkew: int32(r.MaxSkew), perNode: r.Key == corev1.LabelHostname}
	if !out.perNode {
		out.matchCount = w.spreading(r, p.rules.soft, p.filter, p.rules.everywhere)
		return out
	}
	out.matchCount = w.matchCount(fmt.Sprintf("on each node %d", r.match.id), func() *matchCount {
		t := newMatchCount(eachNode(len(w.nodes)), nil, true)
		if !r.Selector.Everything() {
			r.match.counts = append(r.match.counts, t)
		}
		return t
	})
	return out
}

func (w *replayState) matchCount(text string, make func() *matchCount) *matchCount {
	if t, ok := w.counts[text]; ok {
		return t
	}
	t := make()
	w.counts[text] = t
	return t
}

func (w *replayState) topology(key string) *topologyDomains {
	if t, ok := w.topologies[key]; ok {
		return t
	}
	t := newTopology(w.nodes, key)
	w.topologies[key] = t
	return t
}
