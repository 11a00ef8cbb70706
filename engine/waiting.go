package engine

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// waitingLot is pods to plan for that ask for the same. Home is the machine that they are expected on, nil for none.
type waitingLot struct {
	pods  []*corev1.Pod
	facts *podFacts // of one that is like them
	wish  *wish
	home  *host
	// proposed is true where the home is only a proposal: room has to be there.
	proposed bool
	batch    int
	from     *host // in a trial that only counts pods, the machine on which they run; nil for pods that wait
}

// sortPods settles, for every pod that runs nowhere, whether it is expected on some machine. It returns those that are not.
func (p *problem) sortPods() []*corev1.Pod {
	if p.trial != nil {
		return p.sortTrial()
	}
	byName := map[string]*host{} // those that pods are nominated to
	for _, pod := range p.census.unbound {
		if name := pod.Status.NominatedNodeName; name != "" {
			byName[name] = nil
		}
	}
	byPlan := map[string]*host{} // the newest machine that was started for a pod
	early := map[string]*host{}  // the same, where kube-scheduler may not have tried it yet
	leaves := map[string]bool{}  // pods on machines that are being removed: only they ask for a machine where all were tried
	for _, h := range p.hosts {
		if h.leaving {
			for _, pod := range h.bound {
				leaves[string(pod.UID)] = true
			}
		}
	}
	for _, h := range p.hosts {
		if h.leaving || h.late || h.gone {
			continue
		}
		if _, asked := byName[h.name()]; asked {
			byName[h.name()] = h
		}
		if h.claim == nil {
			continue
		}
		tried := h.isTried(p.snapshot.Now)
		if tried && len(leaves) == 0 {
			continue
		}
		for _, uid := range h.planned {
			if tried && !leaves[uid] {
				continue
			}
			// A pod that could not run on its first machine was planned for anew: the newest plan holds.
			if other := byPlan[uid]; other == nil || !h.claim.CreationTimestamp.Before(&other.claim.CreationTimestamp) {
				byPlan[uid] = h
			}
			if other := early[uid]; !tried && (other == nil || !h.claim.CreationTimestamp.Before(&other.claim.CreationTimestamp)) {
				early[uid] = h
			}
		}
	}
	var waiting, untried []*corev1.Pod
	for _, pod := range p.census.unbound {
		if !isActive(pod) || OwnedByDaemonSet(pod) || IsMirror(pod) {
			continue
		}
		h := early[string(pod.UID)]
		if n := byName[pod.Status.NominatedNodeName]; n != nil {
			h = n
		}
		if h != nil && p.backoffs.unfit[pod] == h.machine {
			h = nil
		}
		switch {
		case h != nil && (IsQueued(pod) || pod.Status.NominatedNodeName != ""):
			h.expected = append(h.expected, pod)
		case IsPending(pod):
			waiting = append(waiting, pod)
		case IsUntried(pod):
			untried = append(untried, pod)
		}
	}
	for _, pod := range p.recheckExpected() {
		if IsPending(pod) {
			waiting = append(waiting, pod)
		} else if IsUntried(pod) {
			untried = append(untried, pod)
		}
	}
	waiting = append(waiting, p.willBeRefused(untried, waiting)...)
	p.proposed = map[*corev1.Pod]*host{}
	for _, h := range p.hosts {
		if !h.leaving {
			continue
		}
		for _, pod := range p.leavingPods(h) {
			waiting = append(waiting, pod)
			if to := byPlan[string(pod.UID)]; to != nil {
				p.proposed[pod] = to
			}
		}
	}
	return waiting
}

// recheckExpected keeps pods expected on a machine as long as they fit beside what runs there now, and as long as the
// machine, once it is initialized, still admits them; it returns the others, which wait like any pod. Pods that are being
// preempted there do not count, nor do the DaemonSets' reserves, which the plan knew.
func (p *problem) recheckExpected() (others []*corev1.Pod) {
	for _, h := range p.hosts {
		if len(h.expected) == 0 {
			continue
		}
		slices.SortFunc(h.expected, olderFirst)
		taken := corev1.ResourceList{}
		for _, pod := range h.bound {
			if !IsTerminating(pod) {
				addList(taken, p.census.memo.needOf(pod).list)
			}
		}
		var kept []*corev1.Pod
		for _, pod := range h.expected {
			with, need := taken.DeepCopy(), p.census.memo.needOf(pod).list
			addList(with, need)
			d := p.wishes.of(pod).demand
			if listFits(need, with, h.usable()) && (!h.isInitialized() || h.admits(&d, nil)) {
				taken = with
				kept = append(kept, pod)
			} else {
				others = append(others, pod)
			}
		}
		h.expected = kept
	}
	return others
}

// listFits reports whether, of what is needed, there is enough for all; what others have overdrawn does not matter.
func listFits(need, all, have corev1.ResourceList) bool {
	for name, q := range need {
		sum, h := all[name], have[name]
		if q.Sign() > 0 && sum.Cmp(h) > 0 {
			return false
		}
	}
	return true
}

// leavingPods lists the pods that need another place because their machine is being removed.
func (p *problem) leavingPods(h *host) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range h.bound {
		if h.supposed && p.trial.held && IsReschedulable(pod) {
			out = append(out, pod)
		} else if IsReschedulable(pod) && !ProtectionOf(pod, p.snapshot.Now).Active && !p.budgetsOfPods().neverAllow(pod) {
			out = append(out, pod)
		}
	}
	return out
}

// toPlan adds the pods that are expected somewhere, whose first choice is that machine, and takes out those that cannot be
// planned for at all.
func (p *problem) toPlan(pods []*corev1.Pod) []waitingLot {
	home := map[*corev1.Pod]*host{}
	for _, h := range p.hosts {
		for _, pod := range h.expected {
			home[pod] = h
			pods = append(pods, pod)
		}
	}
	proposed := p.proposed
	if p.trial != nil && len(p.trial.hints) > 0 {
		proposed = map[*corev1.Pod]*host{}
		for _, pod := range pods {
			if h := p.trial.homeOf(pod, p.hosts); h != nil && home[pod] == nil {
				proposed[pod] = h
			}
		}
	}
	out := make([]waitingLot, 0, len(pods))
	if p.trial == nil { // in trials the order in which pods are met makes no difference: classes have their own
		slices.SortFunc(pods, olderFirst)
	}
	for i, pod := range pods {
		f := p.census.memo.factsOf(pod)
		w := p.wishes.ofFacts(f)
		if !w.objection.OK() {
			p.refused = append(p.refused, Unplaced{Pod: podID(pod), Reasons: []Reason{w.objection}})
			continue
		}
		to := proposed[pod]
		out = append(out, waitingLot{pods[i : i+1 : i+1], f, w, cmp.Or(home[pod], to), to != nil, p.trial.batchOf(pod), nil})
	}
	if p.trial.counts() {
		out = append(out, p.lotsToPlan()...)
	}
	return p.bounded(out)
}

// leavers are the pods that leave their machine because it is being removed, whether there is another place for them or not.
func (p *problem) leavers() map[*corev1.Pod]bool {
	out := map[*corev1.Pod]bool{}
	for _, h := range p.hosts {
		if !h.leaving {
			continue
		}
		for _, pod := range p.leavingPods(h) {
			out[pod] = true
		}
	}
	return out
}
