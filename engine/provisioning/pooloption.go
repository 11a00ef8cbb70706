package provisioning

import (
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/kube"
)

// poolOption names an option of the packing problem: an offering of a type, in one of the type's variants.
type poolOption struct {
	kind     *engine.InstanceType
	offering *engine.Offering
	variant  map[string]string // one value for each of the type's labels
}

func (o *poolOption) id() engine.OfferingID {
	return engine.OfferingID{InstanceType: o.kind.Name, Zone: o.offering.Zone, CapacityType: o.offering.CapacityType, Reservation: o.offering.Reservation}
}

// label is the value that a machine of this option has for a settled key.
func (o *poolOption) label(key string) (value string, there bool) {
	switch key {
	case corev1.LabelTopologyZone:
		return o.offering.Zone, true
	case v1.CapacityTypeLabelKey:
		return o.offering.CapacityType, true
	}
	if value, there = o.offering.Labels[key]; there {
		return value, true
	}
	value, there = o.variant[key]
	return value, there
}

// sizeOf is what pods can use of a machine of the type: what the catalog says (size, which it changes), or what running
// machines have taught.
func (m *poolModel) sizeOf(p *Problem, t *engine.InstanceType, size capacity.Vector) capacity.Vector {
	if known := p.learned[t]; known != nil {
		memory := p.Names.Find(string(corev1.ResourceMemory))
		size[memory] = kube.Amount(corev1.ResourceMemory, *known)
	}
	if pods := p.Names.Find(string(corev1.ResourcePods)); p.opt.MaxPodsPerNode > 0 {
		size[pods] = min(size[pods], int64(p.opt.MaxPodsPerNode))
	}
	for driver, d := range p.Names.Drivers() {
		size[d] = p.Constraints.Volumes.FreeOn(t, driver)
	}
	if claims := p.Constraints.Claims; claims != nil {
		p.setDevices(size, claims.OnType(t))
	}
	return size
}
