package scheduler

import "tenon.sh/engine/volume"

// passes reports whether kube-scheduler's filters let the pod onto node i.
func (state *replayState) passes(p *podInfo, i int) bool {
	return p.fits(state.room.of(i)) && state.admits(p, i)
}

// admits reports whether every filter except that for resources lets the pod onto node i.
func (state *replayState) admits(p *podInfo, i int) bool {
	n := state.nodes[i]
	if !state.filterResult(p.filter, i).admitted || n.ports.Collide(p.ports) || !n.attachable(p.volumes) || n.disks.Conflict(p.disks) || !p.constraints.passes(i) {
		return false
	}
	if p.devices != nil && !state.devicesFit(p.devices, i) {
		return false
	}
	_, found := state.volumesOn(p, n)
	return found
}

// isFree reports whether only the filter's result and the free resources of a node decide about the pod, as for most pods.
func (p *podInfo) isFree() bool {
	return len(p.ports) == 0 && len(p.volumes) == 0 && len(p.disks) == 0 && len(p.unbound) == 0 && p.devices == nil && len(p.constraints.forbidden) == 0 && len(p.constraints.together) == 0 && len(p.constraints.hard) == 0
}

// attachable reports whether the node's attach limits allow the volumes that are not attached yet. The volumes are sorted by driver.
func (n *nodeInfo) attachable(volumes []volume.Attachment) bool {
	for len(volumes) > 0 {
		driver, more, i := volumes[0].Driver, 0, 0
		for ; i < len(volumes) && volumes[i].Driver == driver; i++ {
			if !n.volumes[volumes[i]] {
				more++
			}
		}
		if limit, limited := n.limits[driver]; limited && more > 0 && n.attached[driver]+more > limit {
			return false
		}
		volumes = volumes[i:]
	}
	return true
}

// passes reports whether the counts of other pods let a pod with these constraints onto node n.
func (w *podConstraints) passes(n int) bool {
	for _, t := range w.forbidden {
		if t.at(n) > 0 {
			return false
		}
	}
	return w.meetsTogether(n) && w.meetsSpread(n)
}

func (w *podConstraints) meetsTogether(n int) bool {
	there, any := true, false
	for _, t := range w.together {
		d := t.of[n]
		if d < 0 {
			return false
		}
		// Pods that are only nominated are ignored here.
		there = there && t.counts[d] > 0
		any = any || t.total > 0
	}
	return there || w.first && !any
}

func (w *podConstraints) meetsSpread(n int) bool {
	for i := range w.hard {
		h := &w.hard[i]
		if h.of[n] < 0 || h.at(n)+h.self-h.minimum(h.minDomains) > h.maxSkew {
			return false
		}
	}
	return true
}
