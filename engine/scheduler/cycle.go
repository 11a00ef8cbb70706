package scheduler

import (
	"slices"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/volume"
)

// mostRounds bounds the number of rounds. More than a few are needed only if chains of pods wait for each other against the order of the queue.
const mostRounds = 30

// run binds the pods one after another. It retries the pods without a node as long as the last round bound any pod.
func (state *replayState) run() (stranded []*podInfo) {
	queue := state.queue
	for round := 0; len(queue) > 0; round++ {
		var left []*podInfo
		for i, p := range queue {
			if round == 0 && (i == 0 || queue[i-1].priority() != p.priority()) {
				state.promiseLevel(queue[i:])
			}
			n := state.choose(p, i)
			if n < 0 {
				left = append(left, p)
				continue
			}
			state.bind(p, n)
			state.nodes[n].used = true
			state.placements, state.landedOn = append(state.placements, state.placement(p, n)), append(state.landedOn, n)
		}
		if len(left) == len(queue) || round == mostRounds {
			return left
		}
		queue = left
	}
	return nil
}

func (state *replayState) placement(p *podInfo, n int) engine.Placement {
	node := state.nodes[n]
	out := engine.Placement{Pod: kube.PodID(p.pod), Node: node.name}
	if node.claim != nil {
		out.Claim = node.claim.Name
	}
	return out
}

// promiseLevel keeps resources for the nominated pods with the priority of the queue's first pod: pods of that priority or a lower one cannot
// take them. A nomination ends with the pod's first attempt: either the pod is bound, or kube-scheduler drops the nomination.
func (state *replayState) promiseLevel(queue []*podInfo) {
	for _, p := range queue {
		if p.priority() != queue[0].priority() {
			return
		}
		if p.nomination >= 0 {
			state.promise(p, 1)
		}
	}
}

func (state *replayState) promise(p *podInfo, by int32) {
	n := state.nodes[p.nomination]
	state.room.take(p.nomination, p.requests, int64(by))
	n.ports.Add(p.ports, int(by))
	for _, t := range state.countedBy(p) {
		t.promise(p.nomination, by)
	}
}

// choose returns the index of the node for a pod. It returns -1 if there is none. turn replaces kube-scheduler's random choice between equal nodes.
func (state *replayState) choose(p *podInfo, turn int) int {
	hint := p.nomination
	if hint >= 0 {
		state.promise(p, -1)
		p.nomination = -1
	}
	if p.lost || slices.ContainsFunc(p.once, func(id volume.ClaimID) bool { return state.inUse[id] > 0 }) {
		return -1
	}
	if hint >= 0 && state.passes(p, hint) {
		return hint
	}
	state.feasible = state.feasible[:0]
	plain, free := p.filter.plain, p.isFree()
	state.room.each(p, p.scoring.nodesToScore(len(state.nodes)), func(from, to int, roomy bool) int {
		before := len(state.feasible)
		if roomy && plain && free {
			for i := from; i < to; i++ {
				state.feasible = append(state.feasible, i)
			}
			return to - from
		}
		for i := from; i < to; i++ {
			if (roomy || p.fits(state.room.of(i))) && (free && (plain || state.filterResult(p.filter, i).admitted) || !free && state.admits(p, i)) {
				state.feasible = append(state.feasible, i)
			}
		}
		return len(state.feasible) - before
	})
	switch len(state.feasible) {
	case 0:
		return -1
	case 1:
		return state.feasible[0]
	}
	state.score(p)
	return state.best(turn)
}

// best returns the node with the highest score; if several have it, a hash of turn and node chooses.
func (state *replayState) best(turn int) int {
	lot := func(i int) uint64 { return kube.Mixed(uint64(turn)<<32 | uint64(state.feasible[i])) }
	best, bestLot := 0, lot(0)
	for i, total := range state.totals {
		switch {
		case total > state.totals[best]:
			best, bestLot = i, lot(i)
		case total == state.totals[best] && lot(i) > bestLot:
			best, bestLot = i, lot(i)
		}
	}
	return state.feasible[best]
}

// bind puts the pod on node i.
func (state *replayState) bind(p *podInfo, i int) {
	n := state.nodes[i]
	state.room.take(i, p.requests, 1)
	state.loads[i].add(p.requested, p.scored)
	state.addExtras(i, p.request, 1)
	state.scores[i].series = 0
	n.ports.Add(p.ports, 1)
	n.disks.Add(p.disks)
	for _, v := range p.volumes {
		n.attach(v)
	}
	state.use(p.once)
	state.takeVolumes(p, n)
	if p.devices != nil {
		state.takeDevices(p.devices, i)
	}
	for _, t := range state.countedBy(p) {
		t.add(i, 1)
	}
}

// countedBy returns the counts that change when the pod is bound.
func (state *replayState) countedBy(p *podInfo) []*matchCount {
	if p.counted != nil || len(state.reader.matchers) == 0 {
		return p.counted
	}
	if p.labels == nil {
		p.labels = state.labelKind(p.pod.Namespace, p.pod.Labels)
	}
	p.counted = state.countsOf(countedKey{p.labels, p.rules, kube.IsTerminating(p.pod) && p.constraints == nil})
	return p.counted
}

// countsOf returns the counts that pods with this key change.
func (state *replayState) countsOf(key countedKey) []*matchCount {
	list, ok := state.counted[key]
	if !ok {
		list = []*matchCount{}
		for m := key.labels.matched.Next(0); m >= 0; m = key.labels.matched.Next(m + 1) {
			for _, t := range state.reader.matchers[m].counts {
				if !t.live || !key.ending {
					list = appendOnce(list, t)
				}
			}
		}
		if key.rules != nil {
			for _, h := range key.rules.held {
				if h.owned != nil {
					list = append(list, h.owned)
				}
			}
		}
		state.counted[key] = list
	}
	return list
}
