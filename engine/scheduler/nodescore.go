package scheduler

import (
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// nodeLoad is what the scores look at of a node. Every pod is scored on hundreds of nodes, so that it is kept apart from the
// rest of the node, side by side.
type nodeLoad struct {
	allocatable       kube.Usage
	requested, scored kube.Usage // what pods ask for; scored with what counts for containers that name nothing
	even              int64      // evenness as it is
}

// seriesScore is what resources give on a node for the pods of a series: as long as nothing more is bound there, the same for
// all of them.
type seriesScore struct {
	score  int64
	series int // 0 for none
}

// add counts what is bound to the node.
func (l *nodeLoad) add(requested, scored kube.Usage) {
	l.requested, l.scored = l.requested.Plus(requested), l.scored.Plus(scored)
	l.even = evenness(l.requested, l.allocatable)
}

// seriesAsks is what pods of a series have in common.
type seriesAsks struct {
	scoring        *scoring
	requested, fit kube.Usage
	extras         *inventory.RequestClass // nil if scores look at nothing beside cpu and memory
}

// scoreResources fills in what the resources of the nodes give, the share left over and the balance.
func (state *replayState) scoreResources(p *podInfo) {
	asks := seriesAsks{scoring: p.scoring, requested: p.requested, fit: p.fit}
	if len(state.extraNames) > 0 {
		asks.extras = p.request
	}
	if state.series == 0 || state.seriesAsks != asks {
		state.series, state.seriesAsks = state.series+1, asks
	}
	for i, k := range state.feasible {
		s := &state.scores[k]
		if s.series != state.series {
			s.score, s.series = state.resourceScore(p, k), state.series
		}
		state.totals[i] = s.score
	}
}
