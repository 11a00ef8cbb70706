package scheduler

import (
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// nodeLoad holds the node data for scores. It is kept apart from the rest of the node, in one slice, because each pod is scored on hundreds of
// nodes.
type nodeLoad struct {
	allocatable       kube.Usage
	requested, scored kube.Usage // requests of the pods; scored adds defaults for containers without requests
	even              int64      // evenness of requested
}

// seriesScore is a node's score of resources for the pods of a series; it is valid until another pod is bound there.
type seriesScore struct {
	score  int64
	series int // 0 for none
}

// add adds the usage of pods that are bound to the node.
func (l *nodeLoad) add(requested, scored kube.Usage) {
	l.requested, l.scored = l.requested.Plus(requested), l.scored.Plus(scored)
	l.even = evenness(l.requested, l.allocatable)
}

// seriesAsks holds the requests and the profile that the pods of a series share.
type seriesAsks struct {
	scoring        *scoring
	requested, fit kube.Usage
	extras         *inventory.RequestClass // nil if scores use CPU and memory only
}

// scoreResources fills in the scores of the nodes' resources: NodeResourcesFit and the balance.
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
