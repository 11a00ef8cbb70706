package scheduler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"tenon.sh/engine/bitset"
)

// labelKind is a sort of pod to every selector of the replay.
type labelKind struct {
	id int
	// matched holds the matchers that match such pods.
	matched bitset.Set
}

// landingWish is what a pod asks of the pods on and around a node, in terms of tallies.
type landingWish struct {
	// forbidden tallies must be 0 where the pod goes; together, above 0, unless nothing matches anywhere and the pod
	// itself does (first).
	forbidden, together []*tally
	first               bool
	hard                []hardSpread
	soft                []softSpread
	everywhere          bool
	scores              []weighedTally
}

type hardSpread struct {
	*tally
	maxSkew, minDomains, self int32
}

type softSpread struct {
	*tally
	key     *landingTopology
	perNode bool // hostnames: every node counts by itself
	maxSkew int32
}

type weighedTally struct {
	*tally
	weight int64
}

// labelKind interns what a pod's labels mean to the selectors.
func (w *landingWorld) labelKind(namespace string, set labels.Set) *labelKind {
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
	k := &labelKind{id: len(w.labelKinds), matched: bitset.New(len(w.reader.matchers))}
	w.labelKinds[string(b)] = k
	for _, m := range w.reader.matchers {
		if !slices.ContainsFunc(m.terms, func(t podTerm) bool { return !t.matches(namespace, w.namespaces[namespace], set) }) {
			k.matched.Add(m.id)
		}
	}
	return k
}

// wishKey tells wishes apart.
type wishKey struct {
	rules  *podRules
	labels *labelKind
	ground *ground
	// hardPodAffinity is that of the pod's profile.
	hardPodAffinity int64
}

// wishOf interns the wish of a pod that has to land.
func (w *landingWorld) wishOf(p *landingPod) *landingWish {
	key := wishKey{p.rules, p.labels, p.ground, p.scoring.hardPodAffinity}
	if out, ok := w.wishes[key]; ok {
		return out
	}
	out := &landingWish{everywhere: p.rules.everywhere}
	w.wishes[key] = out
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
		out.scores = append(out.scores, weighedTally{w.matching(r.match, r.key), r.weight})
	}
	for _, h := range w.reader.held {
		switch {
		case !p.labels.matched.Has(h.match.id):
		case h.apart:
			out.forbidden = appendOnce(out.forbidden, w.owned(h))
		case h.hard:
			if weight := p.scoring.hardPodAffinity; weight > 0 {
				out.scores = append(out.scores, weighedTally{w.owned(h), weight})
			}
		default:
			out.scores = append(out.scores, weighedTally{w.owned(h), h.weight})
		}
	}
	for _, r := range p.rules.hard {
		self := int32(0)
		if p.labels.matched.Has(r.match.id) {
			self = 1
		}
		out.hard = append(out.hard, hardSpread{w.spreading(r, p.rules.hard, p.ground, true), r.maxSkew, r.minDomains, self})
	}
	for _, r := range p.rules.soft {
		out.soft = append(out.soft, w.softSpread(r, p))
	}
	return out
}

// matching is the tally of pods that match, by domain of a label, on all nodes.
func (w *landingWorld) matching(m *matcher, key string) *tally {
	return w.tally(fmt.Sprintf("matching %d %s", m.id, key), func() *tally {
		t := newTally(w.topology(key), nil, false)
		m.tallies = append(m.tallies, t)
		return t
	})
}

// owned is the tally of pods that own a term.
func (w *landingWorld) owned(h *heldTerm) *tally {
	if h.owned == nil {
		h.owned = newTally(w.topology(h.key), nil, false)
	}
	return h.owned
}

// spreading is the tally that a spread constraint goes by: pods of the selector on nodes that have the labels of all
// the pod's constraints of that kind and that the pod could use, as far as its policies say.
func (w *landingWorld) spreading(r spreadRule, siblings []spreadRule, g *ground, everywhere bool) *tally {
	var keys []string
	if everywhere {
		for _, s := range siblings {
			keys = append(keys, s.key)
		}
		slices.Sort(keys)
	}
	affine, tolerant := "", ""
	if r.honorAffinity && g.terms != nil {
		affine = g.affinityText
	}
	if r.honorTaints {
		tolerant = g.tolerationText
	}
	text := fmt.Sprintf("spreading %d %t %s %q %t %q %t %q", r.match.id, r.counts, r.key, keys, affine != "", affine, r.honorTaints, tolerant)
	return w.tally(text, func() *tally {
		within := make([]bool, len(w.nodes))
		for i := range w.nodes {
			v := w.verdict(g, i)
			within[i] = (affine == "" || v.affine) && (!r.honorTaints || v.tolerated) &&
				!slices.ContainsFunc(keys, func(key string) bool { return w.topology(key).of[i] < 0 })
		}
		t := newTally(w.topology(r.key), within, true)
		if r.counts {
			r.match.tallies = append(r.match.tallies, t)
		}
		return t
	})
}

func (w *landingWorld) softSpread(r spreadRule, p *landingPod) softSpread {
	out := softSpread{key: w.topology(r.key), maxSkew: r.maxSkew, perNode: r.key == corev1.LabelHostname}
	if !out.perNode {
		out.tally = w.spreading(r, p.rules.soft, p.ground, p.rules.everywhere)
		return out
	}
	out.tally = w.tally(fmt.Sprintf("on each node %d %t", r.match.id, r.counts), func() *tally {
		t := newTally(eachNode(len(w.nodes)), nil, true)
		if r.counts {
			r.match.tallies = append(r.match.tallies, t)
		}
		return t
	})
	return out
}

func (w *landingWorld) tally(text string, make func() *tally) *tally {
	if t, ok := w.tallies[text]; ok {
		return t
	}
	t := make()
	w.tallies[text] = t
	return t
}

func (w *landingWorld) topology(key string) *landingTopology {
	if t, ok := w.topologies[key]; ok {
		return t
	}
	t := newTopology(w.nodes, key)
	w.topologies[key] = t
	return t
}
