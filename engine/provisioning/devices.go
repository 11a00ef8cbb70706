package provisioning

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// countDevices fills in what the machine has left of the resources that claimed devices are counted as.
func (p *Problem) countDevices(h *inventory.Machine, free capacity.Vector) {
	claims := p.Constraints.Claims
	switch {
	case claims == nil:
		return
	case h.Node != nil:
		p.setDevices(free, claims.OnNode(h.Node, h.IsInitialized(), h.ExpectedType()))
	case h.Open == nil:
		p.setDevices(free, claims.OnType(h.ExpectedType()))
	default: // of what may be started it is the least of each
		for i, t := range h.Open.Types {
			room := claims.OnType(t)
			if i == 0 {
				p.setDevices(free, room)
				continue
			}
			for d := range free {
				if name := corev1.ResourceName(p.Names.Name(d)); kube.IsClaimed(name) {
					free[d] = min(free[d], room[name])
				}
			}
		}
	}
	for _, pod := range h.Promised {
		need := claims.Of(pod)
		free.Add(p.Names.Vector(need.Requests), -1)
	}
}

// setDevices writes the room into the vector.
func (p *Problem) setDevices(size capacity.Vector, room map[corev1.ResourceName]int64) {
	for d := range size {
		if name := corev1.ResourceName(p.Names.Name(d)); kube.IsClaimed(name) {
			size[d] = room[name]
		}
	}
}

// deviceRefusal says what the devices of the nearest type lack.
func (p *Problem) deviceRefusal(pool *poolModel, c *podClass, able bitset.Set) engine.Reason {
	var types []*engine.InstanceType
	for o := able.Next(0); o >= 0; o = able.Next(o + 1) {
		if t := pool.options[o].kind; !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	r := p.Constraints.Claims.Miss(&c.Devices, types)
	if r.OK() {
		r = engine.Reason{Code: engine.NoDevices, Key: "(several)", Need: "devices", Have: "no type has them for all its requests"}
	}
	return r
}
