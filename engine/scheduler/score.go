package scheduler

import (
	"math"
	"slices"
)

// score fills in the total score of every node that can take the pod.
func (w *replayState) score(p *podInfo) {
	w.totals = slices.Grow(w.totals[:0], len(w.feasible))[:len(w.feasible)]
	w.raw = slices.Grow(w.raw[:0], len(w.feasible))[:len(w.feasible)]
	w.scoreResources(p)
	s := p.scoring
	taints, preferred := false, false
	if !p.filter.plain {
		for _, k := range w.feasible {
			v := w.filterResult(p.filter, k)
			taints, preferred = taints || v.taints > 0, preferred || v.preferred != 0
		}
	}
	if taints && s.taints > 0 {
		w.fill(func(k int) int64 { return w.filterResult(p.filter, k).taints })
		normalize(w.raw, true)
		w.addScores(s.taints)
	}
	if preferred && s.nodeAffinity > 0 {
		w.fill(func(k int) int64 { return w.filterResult(p.filter, k).preferred })
		normalize(w.raw, false)
		w.addScores(s.nodeAffinity)
	}
	if len(p.constraints.scores) > 0 && s.podAffinity > 0 && !(s.ignoreTermsOfOthers && len(p.rules.prefer) == 0) {
		w.fill(p.constraints.attraction)
		normalizeAffinity(w.raw)
		w.addScores(s.podAffinity)
	}
	if len(p.constraints.soft) > 0 && s.spread > 0 {
		w.scoreSpread(p.constraints)
		normalizeSpread(w.raw)
		w.addScores(s.spread)
	}
}

func (w *replayState) fill(figure func(node int) int64) {
	for i, k := range w.feasible {
		w.raw[i] = figure(k)
	}
}

func (w *replayState) addScores(weight int64) {
	for i, s := range w.raw {
		w.totals[i] += weight * s
	}
}

// attraction adds up what draws the pod to node n.
func (w *podConstraints) attraction(n int) int64 {
	sum := int64(0)
	for _, s := range w.scores {
		if d := s.of[n]; d >= 0 {
			sum += s.weight * int64(s.counts[d])
		}
	}
	return sum
}

// scoreSpread fills in the raw figures of the soft spread constraints, -1 for nodes that take no part because they lack a
// label of the pod's own constraints.
func (w *replayState) scoreSpread(p *podConstraints) {
	part := 0
	for i, k := range w.feasible {
		w.raw[i] = 0
		if p.everywhere && slices.ContainsFunc(p.soft, func(s softSpread) bool { return s.key.of[k] < 0 }) {
			w.raw[i] = -1
			continue
		}
		part++
	}
	sums := make([]float64, len(w.feasible))
	for j := range p.soft {
		s := &p.soft[j]
		domains := part
		if !s.perNode {
			domains = w.domainsOf(s.key)
		}
		weight := spreadShare(domains)
		for i, k := range w.feasible {
			if w.raw[i] >= 0 && s.key.of[k] >= 0 {
				// The conversion keeps machines that fuse multiplication and addition from rounding otherwise.
				sums[i] += float64(float64(s.counts[s.of[k]])*weight) + float64(s.maxSkew-1)
			}
		}
	}
	for i := range w.raw {
		if w.raw[i] >= 0 {
			w.raw[i] = int64(math.Round(sums[i]))
		}
	}
}

// domainsOf counts the values of a label over the nodes that take part; not having it is a value too.
func (w *replayState) domainsOf(t *topologyDomains) int {
	w.seen = slices.Grow(w.seen[:0], t.values+1)[:t.values+1]
	clear(w.seen)
	count := 0
	for i, k := range w.feasible {
		if d := t.of[k] + 1; w.raw[i] >= 0 && !w.seen[d] {
			w.seen[d] = true
			count++
		}
	}
	return count
}
