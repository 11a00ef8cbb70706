package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/deviceplan"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// readDevices reads the pod's claims for devices, and adds where those can be used that are allocated. ok is false for a pod that
// kube-scheduler lets wait wherever.
func (w *replayState) readDevices(p *podInfo, places [][][]requirement.Expression, ok bool) ([][][]requirement.Expression, bool) {
	if w.claims == nil {
		return places, ok && len(p.request.Devices) == 0
	}
	if len(p.pod.Spec.ResourceClaims)+len(p.request.Devices) == 0 {
		return places, ok
	}
	need := w.claims.Of(p.pod)
	p.devices = &need
	return append(places, need.Within...), ok && need.Problem.OK()
}

// machine allocates the devices of node i.
func (w *replayState) machine(i int) *deviceplan.Machine {
	m := w.machines[i]
	if m == nil {
		n := w.nodes[i]
		m = w.claims.Machine(n.node, !n.starts, w.typeOf(n))
		w.machines[i] = m
	}
	return m
}

// typeOf is the type of a node's machine, nil if the catalog does not list it.
func (w *replayState) typeOf(n *nodeInfo) *engine.InstanceType {
	name := n.node.Labels[v1.NodePoolLabelKey]
	pool := kube.FindPool(w.replay.Snapshot, name)
	if pool == nil || pool.Spec.Template.Spec.NodeClassRef == nil {
		return nil
	}
	return w.cache.TypesOf(w.replay.Snapshot).Find(pool.Spec.Template.Spec.NodeClassRef, name, n.node.Labels[corev1.LabelInstanceTypeStable])
}

// devicesFit reports whether node i has devices for the need.
func (w *replayState) devicesFit(need *deviceplan.Need, i int) bool {
	if home, landed := w.homes[need.Shared]; landed && need.Shared != "" {
		return home == i
	}
	return w.machine(i).Fits(need)
}

// takeDevices allocates them; who comes second to a claim finds that done.
func (w *replayState) takeDevices(need *deviceplan.Need, i int) {
	if need.Shared != "" {
		if _, landed := w.homes[need.Shared]; landed {
			return
		}
		w.homes[need.Shared] = i
	}
	w.machine(i).Take(need)
}
