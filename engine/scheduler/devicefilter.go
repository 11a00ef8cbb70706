package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/deviceplan"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// readDevices reads the pod's ResourceClaims, and appends the places of devices that are allocated already. ok is false if kube-scheduler lets
// the pod wait on every node.
func (state *replayState) readDevices(p *podInfo, places [][][]requirement.Expression, ok bool) ([][][]requirement.Expression, bool) {
	if state.claims == nil {
		return places, ok && len(p.request.Devices) == 0
	}
	if len(p.pod.Spec.ResourceClaims)+len(p.request.Devices) == 0 {
		return places, ok
	}
	need := state.claims.Of(p.pod)
	p.devices = &need
	return append(places, need.Within...), ok && need.Problem.OK()
}

// machine returns the device allocator of node i.
func (state *replayState) machine(i int) *deviceplan.Machine {
	m := state.machines[i]
	if m == nil {
		n := state.nodes[i]
		m = state.claims.Machine(n.node, !n.starts, state.typeOf(n))
		state.machines[i] = m
	}
	return m
}

// typeOf returns the instance type of a node. It returns nil if the catalog does not list the type.
func (state *replayState) typeOf(n *nodeInfo) *engine.InstanceType {
	name := n.node.Labels[v1.NodePoolLabelKey]
	pool := kube.FindPool(state.replay.Snapshot, name)
	if pool == nil || pool.Spec.Template.Spec.NodeClassRef == nil {
		return nil
	}
	return state.cache.TypesOf(state.replay.Snapshot).Find(pool.Spec.Template.Spec.NodeClassRef, name, n.node.Labels[corev1.LabelInstanceTypeStable])
}

// devicesFit reports whether node i has devices for the need.
func (state *replayState) devicesFit(need *deviceplan.Need, i int) bool {
	if home, landed := state.homes[need.Shared]; landed && need.Shared != "" {
		return home == i
	}
	return state.machine(i).Fits(need)
}

// takeDevices allocates the devices, unless an earlier pod of a shared claim has done so.
func (state *replayState) takeDevices(need *deviceplan.Need, i int) {
	if need.Shared != "" {
		if _, landed := state.homes[need.Shared]; landed {
			return
		}
		state.homes[need.Shared] = i
	}
	state.machine(i).Take(need)
}
