package offering

import (
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// Option is the meaning of an option of the packing problem: an offering of a type, in one of the type's variants.
type Option struct {
	Kind     *engine.InstanceType
	Offering *engine.Offering
	variant  map[string]string // one value for each of the type's labels
	// Commitment names the commitment that pays for the machine. It is "" if there is none.
	Commitment string
}

// ID names the offering.
func (o *Option) ID() engine.OfferingID {
	return engine.OfferingID{InstanceType: o.Kind.Name, Zone: o.Offering.Zone, CapacityType: o.Offering.CapacityType, Reservation: o.Offering.Reservation}
}

// label returns the value of a settled label on machines of this option.
func (o *Option) label(key string) (value string, there bool) {
	switch key {
	case corev1.LabelTopologyZone:
		return o.Offering.Zone, true
	case v1.CapacityTypeLabelKey:
		return o.Offering.CapacityType, true
	}
	if value, there = o.Offering.Labels[key]; there {
		return value, true
	}
	value, there = o.variant[key]
	return value, there
}

// valuesOf lists the values that machines of the offering can have for a key.
func valuesOf(kind *engine.InstanceType, o *engine.Offering, key string) []string {
	switch key {
	case corev1.LabelInstanceTypeStable:
		return []string{kind.Name}
	case corev1.LabelTopologyZone:
		return []string{o.Zone}
	case v1.CapacityTypeLabelKey:
		return []string{o.CapacityType}
	}
	if value, ok := o.Labels[key]; ok {
		return []string{value}
	}
	return kind.Labels[key]
}
