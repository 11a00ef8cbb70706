package scheduler

import (
	"slices"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/volume"
)

// mostRounds bounds how often pods are tried again. Only chains of pods that wait for each other in the order opposite to
// that of the queue need more than a few rounds.
const mostRounds = 30

// run binds the pods one after another. Those that no node takes are tried again as long as something has changed since.
func (w *replayState) run() (stranded []*podInfo) {
	queue := w.queue
	for round := 0; len(queue) > 0; round++ {
		var left []*podInfo
		for i, p := range queue {
			if round == 0 && (i == 0 || queue[i-1].priority() != p.priority()) {
				w.promiseLevel(queue[i:])
			}
			n := w.choose(p, i)
			if n < 0 {
				left = append(left, p)
				continue
			}
			w.bind(p, n)
			w.nodes[n].used = true
			w.placements, w.landedOn = append(w.placements, w.placement(p, n)), append(w.landedOn, n)
		}
		if len(left) == len(queue) || round == mostRounds {
			return left
		}
		queue = left
	}
	return nil
}

func (w *replayState) placement(p *podInfo, n int) engine.Placement {
	node := w.nodes[n]
	out := engine.Placement{Pod: kube.PodID(p.pod), Node: node.name}
	if node.claim != nil {
		out.Claim = node.claim.Name
	}
	return out
}

// promiseLevel keeps room for the nominated pods of the level of priority that the queue begins with: no pod of that
// level or a lower one may take it. Every pod's nomination ends with its first attempt: it is bound, or kube-scheduler
// drops the nomination.
func (w *replayState) promiseLevel(queue []*podInfo) {
	for _, p := range queue {
		if p.priority() != queue[0].priority() {
			return
		}
		if p.nomination >= 0 {
			w.promise(p, 1)
		}
	}
}

func (w *replayState) promise(p *podInfo, by int32) {
	n := w.nodes[p.nomination]
	w.room.take(p.nomination, p.requests, int64(by))
	n.ports.Add(p.ports, int(by))
	for _, t := range w.countedBy(p) {
		t.promise(p.nomination, by)
	}
}

// choose finds the node for a pod, -1 if there is none. turn stands for the dice that kube-scheduler would throw.
func (w *replayState) choose(p *podInfo, turn int) int {
	hint := p.nomination
	if hint >= 0 {
		w.promise(p, -1)
		p.nomination = -1
	}
	if p.lost || slices.ContainsFunc(p.once, func(id volume.ClaimID) bool { return w.inUse[id] > 0 }) {
		return -1
	}
	if hint >= 0 && w.passes(p, hint) {
		return hint
	}
	w.feasible = w.feasible[:0]
	plain, free := p.filter.plain, p.isFree()
	w.room.each(p, p.scoring.nodesToScore(len(w.nodes)), func(from, to int, roomy bool) int {
		before := len(w.feasible)
		if roomy && plain && free {
			for i := from; i < to; i++ {
				w.feasible = append(w.feasible, i)
			}
			return to - from
		}
		for i := from; i < to; i++ {
			if (roomy || p.fits(w.room.of(i))) && (free && (plain || w.filterResult(p.filter, i).admitted) || !free && w.admits(p, i)) {
				w.feasible = append(w.feasible, i)
			}
		}
		return len(w.feasible) - before
	})
	switch len(w.feasible) {
	case 0:
		return -1
	case 1:
		return w.feasible[0]
	}
	w.score(p)
	return w.best(turn)
}

// best is the node with the highest score, of several the one that the dice choose.
func (w *replayState) best(turn int) int {
	lot := func(i int) uint64 { return kube.Mixed(uint64(turn)<<32 | uint64(w.feasible[i])) }
	best, bestLot := 0, lot(0)
	for i, total := range w.totals {
		switch {
		case total > w.totals[best]:
			best, bestLot = i, lot(i)
		case total == w.totals[best] && lot(i) > bestLot:
			best, bestLot = i, lot(i)
		}
	}
	return w.feasible[best]
}

// bind puts the pod on node i.
func (w *replayState) bind(p *podInfo, i int) {
	n := w.nodes[i]
	w.room.take(i, p.requests, 1)
	w.loads[i].add(p.requested, p.scored)
	w.addExtras(i, p.request, 1)
	w.scores[i].series = 0
	n.ports.Add(p.ports, 1)
	n.disks.Add(p.disks)
	for _, v := range p.volumes {
		n.attach(v)
	}
	w.use(p.once)
	w.takeVolumes(p, n)
	if p.devices != nil {
		w.takeDevices(p.devices, i)
	}
	for _, t := range w.countedBy(p) {
		t.add(i, 1)
	}
}

// countedBy lists the counts that the pod counts in once it is bound.
func (w *replayState) countedBy(p *podInfo) []*matchCount {
	if p.counted != nil || len(w.reader.matchers) == 0 {
		return p.counted
	}
	if p.labels == nil {
		p.labels = w.labelKind(p.pod.Namespace, p.pod.Labels)
	}
	p.counted = w.countsOf(countedKey{p.labels, p.rules, kube.IsTerminating(p.pod) && p.constraints == nil})
	return p.counted
}

// countsOf lists the counts in which such pods count.
func (w *replayState) countsOf(key countedKey) []*matchCount {
	list, ok := w.counted[key]
	if !ok {
		list = []*matchCount{}
		for m := key.labels.matched.Next(0); m >= 0; m = key.labels.matched.Next(m + 1) {
			for _, t := range w.reader.matchers[m].counts {
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
		w.counted[key] = list
	}
	return list
}
