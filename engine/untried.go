package engine

import corev1 "k8s.io/api/core/v1"

// willBeRefused are those of the pods which kube-scheduler has not tried yet for which it will find no node once it comes to them:
// it tries one pod after the other, and for thousands of pods takes minutes. Either it has found none for another pod of the same
// controller with the same labels, or no node has room left once those that machines were started for have found theirs.
func (p *problem) willBeRefused(untried, waiting []*corev1.Pod) (out []*corev1.Pod) {
	if len(untried) == 0 {
		return nil
	}
	type replica struct {
		owner *ownerFacts
		kind  *alike
	}
	memo, refused := p.census.memo, map[replica]bool{}
	for _, pod := range p.census.unbound {
		if f := memo.factsOf(pod); IsPending(pod) {
			refused[replica{f.owner, f.kind}] = true
		}
	}
	if len(refused) == 0 {
		return nil // all may find room; and nobody knows that kube-scheduler is there
	}
	free := p.freeNow()
	takes := func(f *podFacts) bool { return free.take(p.wishes.ofFacts(f), memo.needFor(f).usageOf()) }
	started := map[string]bool{}
	for _, h := range p.hosts {
		for _, uid := range h.planned {
			started[uid] = true
		}
	}
	for _, pod := range waiting {
		if started[string(pod.UID)] { // on an open node, or another one in its place; others were refused with what is there
			takes(memo.factsOf(pod))
		}
	}
	for _, pod := range untried {
		f := memo.factsOf(pod)
		if f.owner != nil && refused[replica{f.owner, f.kind}] || !takes(f) {
			out = append(out, pod)
		}
	}
	return out
}

// freeNodes are the nodes that are there, with the cpu and the memory that nobody has there or is expected to take.
type freeNodes struct {
	hosts []*host
	free  []usage
	// tried is how many nodes have no room for such pods: what they have becomes less and less.
	tried map[freeKey]int
}

type freeKey struct {
	wish *wish
	need usage
}

func (p *problem) freeNow() *freeNodes {
	out := &freeNodes{tried: map[freeKey]int{}}
	for _, h := range p.hosts {
		if h.node == nil {
			continue
		}
		free := h.facts.usageOf(h.node)
		for _, f := range h.roll.facts {
			free = free.less(p.census.memo.needFor(f).usageOf())
		}
		for _, pod := range h.expected {
			free = free.less(p.census.memo.needOf(pod).usageOf())
		}
		out.hosts, out.free = append(out.hosts, h), append(out.free, free)
	}
	return out
}

// take takes room for a pod on the first node that has some and keeps it off by no taint: what else the pod asks for is left
// aside. It reports false if there is none.
func (n *freeNodes) take(w *wish, need usage) bool {
	key := freeKey{w, need}
	for ; n.tried[key] < len(n.hosts); n.tried[key]++ {
		i := n.tried[key]
		if need[0] <= n.free[i][0] && need[1] <= n.free[i][1] && untolerated(w.tolerations, n.hosts[i].node.Spec.Taints) == nil {
			n.free[i] = n.free[i].less(need)
			return true
		}
	}
	return false
}
