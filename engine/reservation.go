package engine

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
)

// reserve numbers the capacity reservations that the pools' offerings draw from. Where several offerings name one with
// different numbers of slots the smallest counts, and machines that have been asked for and not been launched hold theirs.
func (p *problem) reserve() {
	slots := map[string]int{}
	for _, pool := range p.pools {
		for i := range pool.class.InstanceTypes {
			kind := &pool.class.InstanceTypes[i]
			for j := range kind.Offerings {
				o := &kind.Offerings[j]
				if o.Reservation == "" {
					continue
				}
				if n, ok := slots[o.Reservation]; !ok || o.Slots < n {
					slots[o.Reservation] = o.Slots
				}
			}
		}
	}
	p.reservations = map[string]int{}
	for i, name := range sortedKeys(slots) {
		p.reservations[name] = i
		p.packing.Reservations = append(p.packing.Reservations, slots[name])
	}
	for _, h := range p.hosts {
		if h.open == nil || h.leaving {
			continue
		}
		if at, ok := p.reservations[h.open.reservation()]; ok {
			p.packing.Reservations[at]--
		}
	}
}

// reservation is the one that the claim's machine will draw from, empty if it is not bound to one.
func (o *openLabels) reservation() string {
	reserved := false
	for _, r := range o.claim.Spec.Requirements {
		reserved = reserved || r.Key == v1.CapacityTypeLabelKey && len(r.Values) == 1 && r.Values[0] == v1.CapacityTypeReserved
	}
	if !reserved {
		return ""
	}
	for _, kind := range o.types {
		for i := range kind.Offerings {
			if offering := &kind.Offerings[i]; offering.Reservation != "" && o.allows(offering) {
				return offering.Reservation
			}
		}
	}
	return ""
}

// allows reports whether the claim's requirements leave the offering open.
func (o *openLabels) allows(offering *Offering) bool {
	labels := offeringLabels(offering)
	for _, r := range o.claim.Spec.Requirements {
		e := poolExpression(r)
		if value, ok := labels[e.Key]; ok && !e.Admits(value, true) {
			return false
		}
	}
	return true
}

// reservationOf is the number of the offering's reservation, -1 if it has none.
func (p *problem) reservationOf(o *Offering) int {
	if at, ok := p.reservations[o.Reservation]; ok && o.Reservation != "" {
		return at
	}
	return -1
}

func (p *problem) slotsLeft(o *Offering) bool {
	at := p.reservationOf(o)
	return at < 0 || p.packing.Reservations[at] > 0
}

// learn finds what memory pods can use on running machines, by type: the least that a node of the newest image reports. A
// catalog can only estimate it.
func learn(machines []*machine) map[*InstanceType]*resource.Quantity {
	var newest []*v1.NodeClaim // one of each node class: there are few
	for _, m := range machines {
		if m.teaches == nil {
			continue
		}
		i := classIn(newest, m.claim)
		if i < 0 {
			newest = append(newest, m.claim)
		} else if other := newest[i]; other.CreationTimestamp.Before(&m.claim.CreationTimestamp) ||
			other.CreationTimestamp.Equal(&m.claim.CreationTimestamp) && other.Status.ImageID < m.claim.Status.ImageID {
			newest[i] = m.claim
		}
	}
	learned := map[*InstanceType]*resource.Quantity{}
	for _, m := range machines {
		if m.teaches == nil || newest[classIn(newest, m.claim)].Status.ImageID != m.claim.Status.ImageID {
			continue
		}
		if have := learned[m.kind]; have == nil || m.teaches.Cmp(*have) < 0 {
			learned[m.kind] = m.teaches
		}
	}
	return learned
}

// classIn is the place of the claim with the same node class; -1 without.
func classIn(claims []*v1.NodeClaim, claim *v1.NodeClaim) int {
	return slices.IndexFunc(claims, func(c *v1.NodeClaim) bool { return *c.Spec.NodeClassRef == *claim.Spec.NodeClassRef })
}

// memoryTaught is the memory that pods can use, of a machine that tells what others of its type will have; nil for others.
func (m *machine) memoryTaught() *resource.Quantity {
	if m.claim == nil || m.claim.Spec.NodeClassRef == nil || !m.isInitialized() || m.kind == nil {
		return nil
	}
	memory, ok := m.allocatable[corev1.ResourceMemory]
	if !ok || memory.Sign() <= 0 {
		return nil
	}
	return &memory
}
