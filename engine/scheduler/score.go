package scheduler

import (
	"math"
	"slices"
)

// score fills in the total score of every node that can take the pod.
func (state *replayState) score(p *podInfo) {
	state.totals = slices.Grow(state.totals[:0], len(state.feasible))[:len(state.feasible)]
	state.raw = slices.Grow(state.raw[:0], len(state.feasible))[:len(state.feasible)]
	state.scoreResources(p)
	s := p.scoring
	taints, preferred := false, false
	if !p.filter.plain {
		for _, k := range state.feasible {
			v := state.filterResult(p.filter, k)
			taints, preferred = taints || v.taints > 0, preferred || v.preferred != 0
		}
	}
	if taints && s.taints > 0 {
		state.fill(func(k int) int64 { return state.filterResult(p.filter, k).taints })
		normalize(state.raw, true)
		state.addScores(s.taints)
	}
	if preferred && s.nodeAffinity > 0 {
		state.fill(func(k int) int64 { return state.filterResult(p.filter, k).preferred })
		normalize(state.raw, false)
		state.addScores(s.nodeAffinity)
	}
	if len(p.constraints.scores) > 0 && s.podAffinity > 0 && !(s.ignoreTermsOfOthers && len(p.rules.prefer) == 0) {
		state.fill(p.constraints.attraction)
		normalizeAffinity(state.raw)
		state.addScores(s.podAffinity)
	}
	if len(p.constraints.soft) > 0 && s.spread > 0 {
		state.scoreSpread(p.constraints)
		normalizeSpread(state.raw)
		state.addScores(s.spread)
	}
}

func (state *replayState) fill(figure func(node int) int64) {
	for i, k := range state.feasible {
		state.raw[i] = figure(k)
	}
}

func (state *replayState) addScores(weight int64) {
	for i, s := range state.raw {
		state.totals[i] += weight * s
	}
}

// attraction returns the sum of the weighted counts in node n's domains.
func (w *podConstraints) attraction(n int) int64 {
	sum := int64(0)
	for _, s := range w.scores {
		if d := s.of[n]; d >= 0 {
			sum += s.weight * int64(s.counts[d])
		}
	}
	return sum
}

// scoreSpread fills in the raw figures of the soft spread constraints, -1 for nodes that lack a label of the pod's own constraints.
func (state *replayState) scoreSpread(p *podConstraints) {
	part := 0
	for i, k := range state.feasible {
		state.raw[i] = 0
		if p.everywhere && slices.ContainsFunc(p.soft, func(s softSpread) bool { return s.key.of[k] < 0 }) {
			state.raw[i] = -1
			continue
		}
		part++
	}
	sums := make([]float64, len(state.feasible))
	for j := range p.soft {
		s := &p.soft[j]
		domains := part
		if !s.perNode {
			domains = state.domainsOf(s.key)
		}
		weight := spreadShare(domains)
		for i, k := range state.feasible {
			if state.raw[i] >= 0 && s.key.of[k] >= 0 {
				// The conversion prevents fused multiply-add, which would round differently on some machines.
				sums[i] += float64(float64(s.counts[s.of[k]])*weight) + float64(s.maxSkew-1)
			}
		}
	}
	for i := range state.raw {
		if state.raw[i] >= 0 {
			state.raw[i] = int64(math.Round(sums[i]))
		}
	}
}

// domainsOf returns the number of values of a label over the nodes that take part; a missing label is one value.
func (state *replayState) domainsOf(t *topologyDomains) int {
	state.seen = slices.Grow(state.seen[:0], t.values+1)[:t.values+1]
	clear(state.seen)
	count := 0
	for i, k := range state.feasible {
		if d := t.of[k] + 1; state.raw[i] >= 0 && !state.seen[d] {
			state.seen[d] = true
			count++
		}
	}
	return count
}
