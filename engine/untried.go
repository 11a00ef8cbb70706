package engine

import corev1 "k8s.io/api/core/v1"

// willBeRefused are those of the pods which kube-scheduler has not tried yet for which it will find no node once it comes to them:
// it tries one pod after the other, and for thousands of pods takes minutes. Either it has found none for another pod of the same
// controller with the same labels, or no node has room left once those that machines were started for have found theirs. Other
// schedulers may wait for more than room, for the rest of a gang: of theirs only replicas of refused pods are meant.
func (p *problem) willBeRefused(untried, waiting []*corev1.Pod) (out []*corev1.Pod) {
	if len(untried) == 0 {
		return nil
	}
	type replica struct {
		owner *ownerFacts
		kind  *alike
	}
	memo, refused, works := p.census.memo, map[replica]bool{}, false // works says that kube-scheduler does
	for _, pod := range p.census.unbound {
		if f := memo.factsOf(pod); IsPending(pod) {
			refused[replica{f.owner, f.kind}] = true
			works = works || p.opt.isKubeScheduler(pod.Spec.SchedulerName)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	free := p.freeNow(waiting)
	for _, pod := range untried {
		f := memo.factsOf(pod)
		foreseen := works && p.opt.isKubeScheduler(pod.Spec.SchedulerName)
		if f.owner != nil && refused[replica{f.owner, f.kind}] || foreseen && !free.mayTake(p.wishes.ofFacts(f), memo.needFor(f).usageOf()) {
			out = append(out, pod)
		}
	}
	return out
}

// freeNodes are the nodes that are there, with the cpu and the memory that nobody has there or is expected to take.
type freeNodes struct {
	hosts []*host
	free  []usage
	left  usage // of all nodes: where others have taken a pod's room, it will take theirs
	known map[freeKey]bool
}

type freeKey struct {
	wish *wish
	need usage
}

// freeNow is what the nodes have once the waiting pods run that they were started for. Pods that no machine was started for were
// refused with what is there.
func (p *problem) freeNow(waiting []*corev1.Pod) *freeNodes {
	out, memo := &freeNodes{known: map[freeKey]bool{}}, p.census.memo
	waits := make(map[string]*corev1.Pod, len(waiting))
	for _, pod := range waiting {
		waits[string(pod.UID)] = pod
	}
	for _, h := range p.hosts {
		if h.node == nil {
			continue
		}
		free := h.facts.usageOf(h.node)
		for _, f := range h.roll.facts {
			free = free.less(memo.needFor(f).usageOf())
		}
		for _, pod := range h.expected {
			free = free.less(memo.needOf(pod).usageOf())
		}
		for _, uid := range h.planned {
			if pod := waits[uid]; pod != nil {
				free = free.less(memo.needOf(pod).usageOf())
			}
		}
		out.hosts, out.free, out.left = append(out.hosts, h), append(out.free, free), out.left.plus(free)
	}
	return out
}

// mayTake reports whether a node has room for such a pod and keeps it off by no taint: what else the pod asks for is left aside.
func (n *freeNodes) mayTake(w *wish, need usage) bool {
	key := freeKey{w, need}
	may, known := n.known[key]
	for i := 0; !known && !may && need.within(n.left) && i < len(n.hosts); i++ {
		may = need.within(n.free[i]) && untolerated(w.tolerations, n.hosts[i].node.Spec.Taints) == nil
	}
	n.known[key] = may
	return may
}
