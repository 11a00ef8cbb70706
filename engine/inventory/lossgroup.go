package inventory

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// LossGroups returns the instance types and zones that a spot machine has or may get. It returns none for a machine that is not on spot.
func (m *MachineInfo) LossGroups() (types, zones []string) {
	if m.Open == nil {
		id := MachineOffering(m.Labels)
		if id.CapacityType != v1.CapacityTypeSpot {
			return nil, nil
		}
		return []string{id.InstanceType}, []string{id.Zone}
	}
	spot := false
	for _, r := range m.Claim.Spec.Requirements {
		if r.Operator != v1.In {
			continue
		}
		switch v1.NormalizeLabel(r.Key) {
		case v1.CapacityTypeLabelKey: // a launch is of one capacity type
			spot = slices.Contains(r.Values, v1.CapacityTypeSpot)
		case corev1.LabelInstanceTypeStable:
			types = r.Values
		case corev1.LabelTopologyZone:
			zones = r.Values
		}
	}
	if !spot {
		return nil, nil
	}
	return types, zones
}
