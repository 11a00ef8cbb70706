package scheduler

import (
	"slices"

	"tenon.sh/engine/kube"
	"tenon.sh/engine/volume"
)

// passes reports whether kube-scheduler's filters let the pod onto node i.
func (w *replayState) passes(p *podInfo, i int) bool {
	return p.fits(w.room.of(i)) && w.admits(p, i)
}

// admits is passes, room aside.
func (w *replayState) admits(p *podInfo, i int) bool {
	n := w.nodes[i]
	if !w.filterResult(p.filter, i).admitted || !n.portsFree(p.ports) || !n.attachable(p.volumes) || !n.disksFree(p.disks) || !p.constraints.passes(i) {
		return false
	}
	if p.devices != nil && !w.devicesFit(p.devices, i) {
		return false
	}
	_, found := w.volumesOn(p, n)
	return found
}

// isFree is true for a pod, as most are, that any node admits if the filter's result for the node does and if there is room.
func (p *podInfo) isFree() bool {
	return len(p.ports) == 0 && len(p.volumes) == 0 && len(p.disks) == 0 && len(p.unbound) == 0 && p.devices == nil && len(p.constraints.forbidden) == 0 && len(p.constraints.together) == 0 && len(p.constraints.hard) == 0
}

func (n *nodeInfo) portsFree(ports []kube.HostPort) bool {
	return !slices.ContainsFunc(ports, func(p kube.HostPort) bool {
		return slices.ContainsFunc(n.ports, p.Collides) || slices.ContainsFunc(n.promisedPorts, p.Collides)
	})
}

// disksFree reports whether no pod on the node keeps a disk from the pod.
func (n *nodeInfo) disksFree(disks []volume.Disk) bool {
	return !slices.ContainsFunc(disks, func(d volume.Disk) bool { return slices.ContainsFunc(n.disks, d.Conflicts) })
}

// attachable reports whether the node's attach limits leave room for the volumes that it has not got yet.
func (n *nodeInfo) attachable(volumes []volume.Attachment) bool {
	return !slices.ContainsFunc(volumes, func(v volume.Attachment) bool {
		limit, limited := n.limits[v.Driver]
		more := n.lacks(volumes, v.Driver)
		return limited && more > 0 && n.attached[v.Driver]+more > limit
	})
}

// lacks counts the volumes of a driver that are not attached to the node.
func (n *nodeInfo) lacks(volumes []volume.Attachment, driver string) int {
	count := 0
	for _, v := range volumes {
		if v.Driver == driver && !n.volumes[v] {
			count++
		}
	}
	return count
}

// passes reports whether the pods around let a pod with these constraints onto node n.
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
		// A pod that is only nominated is not there yet.
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
