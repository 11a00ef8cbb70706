package provisioning

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/packing"
)

// countDevices sets the room that the machine has of the resources for claimed devices.
func (p *Problem) countDevices(m *inventory.Machine, free capacity.Vector) {
	claims := p.Constraints.Claims
	switch {
	case claims == nil:
		return
	case m.Node != nil:
		p.Names.SetDevices(free, claims.OnNode(m.Node, m.IsInitialized() || m.Misses, m.ExpectedType()))
	case m.Open == nil:
		p.Names.SetDevices(free, claims.OnType(m.Pool(), m.ExpectedType()))
	default: // the least of each resource among the possible types
		for i, t := range m.Open.Types {
			room := claims.OnType(m.Pool(), t)
			if i == 0 {
				p.Names.SetDevices(free, room)
				continue
			}
			for d := range free {
				if name := corev1.ResourceName(p.Names.Name(d)); kube.IsClaimed(name) {
					free[d] = min(free[d], room[name])
				}
			}
		}
	}
	for _, pod := range m.Promised {
		need := claims.Of(pod)
		free.Add(p.Names.Vector(need.Requests), -1)
	}
}

// driversOf returns the drivers of the devices that the pods of a new machine claim.
func (an *answer) driversOf(m *packing.Machine) []string {
	var out []string
	for _, share := range m.Pods {
		needs := &an.Classes[share.Class].Devices
		if needs.Kind() < 0 {
			continue
		}
		for _, o := range m.Listed {
			out = append(out, an.Constraints.Claims.Drivers(needs, an.Pools[m.Pool].NodePool.Name, an.Pools[m.Pool].Options[o].Kind)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// deviceRefusal returns the devices that the nearest type lacks.
func (an *answer) deviceRefusal(pool *offering.Pool, c *podClass, able bitset.Set) engine.Reason {
	var types []*engine.InstanceType
	for o := able.Next(0); o >= 0; o = able.Next(o + 1) {
		if t := pool.Options[o].Kind; !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	r := an.Constraints.Claims.Miss(&c.Devices, pool.NodePool.Name, types)
	if r.OK() {
		r = engine.Reason{Code: engine.NoDevices, Key: "(several)", Need: "devices", Have: "no type has them for all its requests"}
	}
	return r
}
