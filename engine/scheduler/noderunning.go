package scheduler

import (
	"slices"

	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// nodePods sums up the pods of a node for replays; it is computed once as long as the pods do not change.
type nodePods struct {
	requested, scored kube.Usage
	requests          []requestCount
	kinds             []labelCount
	daemons           []string // DaemonSets that have a pod here
	// apart are the pods that each replay reads anew, because they have volumes, host ports or rules on other pods. Of the other fields, only daemons
	// includes them.
	apart []*inventory.PodInfo
}

// requestCount is a number of pods with equal requests.
type requestCount struct {
	class *inventory.RequestClass
	n     int64
}

// labelCount is a number of pods that change the same counts.
type labelCount struct {
	kind   *inventory.LabelClass
	ending bool
	n      int32
}

// NodePodsOf returns the sums of the node's pods.
func NodePodsOf(c *inventory.Cache, r *inventory.NodePods) *nodePods {
	if known, ok := r.Replay.(*nodePods); ok {
		return known
	}
	out := &nodePods{daemons: r.DaemonKeys()}
	for _, info := range r.Infos {
		if info.Apart {
			out.apart = append(out.apart, info)
			continue
		}
		need := c.RequestsFor(info)
		requested := need.UsageOf()
		out.requested, out.scored = out.requested.Plus(requested), out.scored.Plus(scoredOf(info, requested))
		i := slices.IndexFunc(out.requests, func(x requestCount) bool { return x.class == need })
		if i < 0 {
			i = len(out.requests)
			out.requests = append(out.requests, requestCount{class: need})
		}
		out.requests[i].n++
		i = slices.IndexFunc(out.kinds, func(x labelCount) bool { return x.kind == info.Labels && x.ending == info.Ending })
		if i < 0 {
			i = len(out.kinds)
			out.kinds = append(out.kinds, labelCount{kind: info.Labels, ending: info.Ending})
		}
		out.kinds[i].n++
	}
	r.Replay = out
	return out
}

// bindNodePods binds all pods of the node, except those apart, to node i.
func (state *replayState) bindNodePods(r *nodePods, i int) {
	for _, x := range r.requests {
		state.room.take(i, state.measuredOf(x.class).requests, x.n)
	}
	state.loads[i].add(r.requested, r.scored)
	if len(state.extraNames) > 0 {
		for _, x := range r.requests {
			state.addExtras(i, x.class, x.n)
		}
	}
	if len(state.reader.matchers) == 0 {
		return
	}
	for _, x := range r.kinds {
		for _, t := range state.countsOfLabels(x.kind, x.ending) {
			t.add(i, x.n)
		}
	}
}

// labelCounts are the counts that pods with the same labels change: at 0 for pods that stay, at 1 for pods that are ending.
type labelCounts [2][]*matchCount

// countsOfLabels returns the counts that pods with these labels and without rules on other pods change.
func (state *replayState) countsOfLabels(k *inventory.LabelClass, ending bool) []*matchCount {
	at := state.ofKind[k]
	if at == nil {
		labels := state.labelKind(k.Sample.Namespace, k.Sample.Labels)
		at = &labelCounts{state.countsOf(countedKey{labels: labels}), state.countsOf(countedKey{labels: labels, ending: true})}
		state.ofKind[k] = at
	}
	if ending {
		return at[1]
	}
	return at[0]
}
