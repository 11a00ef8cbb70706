package inventory

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// observedMemory returns the memory that pods can use on machines of each type: the least that a running node of the newest image reports. A
// catalog can only estimate it.
func observedMemory(machines []*MachineInfo) map[*engine.InstanceType]*resource.Quantity {
	var newest []*v1.NodeClaim // one of each node class: there are few
	for _, m := range machines {
		if m.observed == nil {
			continue
		}
		i := classIn(newest, m.Claim)
		if i < 0 {
			newest = append(newest, m.Claim)
		} else if other := newest[i]; other.CreationTimestamp.Before(&m.Claim.CreationTimestamp) ||
			other.CreationTimestamp.Equal(&m.Claim.CreationTimestamp) && other.Status.ImageID < m.Claim.Status.ImageID {
			newest[i] = m.Claim
		}
	}
	learned := map[*engine.InstanceType]*resource.Quantity{}
	for _, m := range machines {
		if m.observed == nil || newest[classIn(newest, m.Claim)].Status.ImageID != m.Claim.Status.ImageID {
			continue
		}
		if have := learned[m.kind]; have == nil || m.observed.Cmp(*have) < 0 {
			learned[m.kind] = m.observed
		}
	}
	return learned
}

// classIn returns the index of the claim with the same node class. It returns -1 if there is none.
func classIn(claims []*v1.NodeClaim, claim *v1.NodeClaim) int {
	return slices.IndexFunc(claims, func(c *v1.NodeClaim) bool { return *c.Spec.NodeClassRef == *claim.Spec.NodeClassRef })
}

// observeMemory returns the memory that pods can use on an initialized machine of a known type. It returns nil for other machines.
func (m *MachineInfo) observeMemory() *resource.Quantity {
	if m.Claim == nil || m.Claim.Spec.NodeClassRef == nil || !m.IsInitialized() || m.kind == nil {
		return nil
	}
	memory, ok := m.Allocatable[corev1.ResourceMemory]
	if !ok || memory.Sign() <= 0 {
		return nil
	}
	return &memory
}
