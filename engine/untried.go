package engine

import corev1 "k8s.io/api/core/v1"

// willBeRefused are those of the pods which kube-scheduler has not tried yet for which it will find no node once it comes to them:
// it tries one pod after the other, and for thousands of pods takes minutes. Either it has found none for another pod of the same
// controller with the same labels, or nowhere is there room.
func (p *problem) willBeRefused(untried []*corev1.Pod) (out []*corev1.Pod) {
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
	for _, pod := range untried {
		f := memo.factsOf(pod)
		if f.owner != nil && refused[replica{f.owner, f.kind}] || !free.takes(p.wishes.ofFacts(f), memo.needFor(f).usageOf()) {
			out = append(out, pod)
		}
	}
	return out
}

// freeNodes are the nodes that take pods now, with the cpu and the memory that nobody has there or is expected to take.
type freeNodes struct {
	hosts []*host
	free  []usage
	// refused are wishes with amounts for which there is no room.
	refused map[freeKey]bool
}

type freeKey struct {
	wish *wish
	need usage
}

func (p *problem) freeNow() *freeNodes {
	out := &freeNodes{refused: map[freeKey]bool{}}
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

// takes reports whether kube-scheduler may find one of the nodes for a pod: what else it asks for is left aside.
func (n *freeNodes) takes(w *wish, need usage) bool {
	key := freeKey{w, need}
	if n.refused[key] {
		return false
	}
	for i, h := range n.hosts {
		if need[0] <= n.free[i][0] && need[1] <= n.free[i][1] && untolerated(w.tolerations, h.node.Spec.Taints) == nil {
			return true
		}
	}
	n.refused[key] = true
	return false
}
