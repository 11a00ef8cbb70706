package provisioning

import (
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// reserve numbers the capacity reservations that the pools' offerings draw from. Where several offerings name one with
// different numbers of slots the smallest counts, and machines that have been asked for and not been launched hold theirs.
func (p *Problem) reserve() {
	slots := map[string]int{}
	for _, pool := range p.Pools {
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
	if p.trial != nil && p.trial.Freed != "" {
		slots[p.trial.Freed]++
	}
	p.reservations = map[string]int{}
	for i, name := range kube.SortedKeys(slots) {
		p.reservations[name] = i
		p.Packing.Reservations = append(p.Packing.Reservations, slots[name])
	}
	for _, h := range p.Machines {
		if h.Open == nil || h.Leaving {
			continue
		}
		if at, ok := p.reservations[reservationOf(h.Open)]; ok {
			p.Packing.Reservations[at]--
		}
	}
}

// reservationOf is the one that the claim's machine will draw from, empty if it is not bound to one.
func reservationOf(o *inventory.OpenLabels) string {
	reserved := false
	for _, r := range o.Claim.Spec.Requirements {
		reserved = reserved || r.Key == v1.CapacityTypeLabelKey && len(r.Values) == 1 && r.Values[0] == v1.CapacityTypeReserved
	}
	if !reserved {
		return ""
	}
	for _, kind := range o.Types {
		for i := range kind.Offerings {
			if offering := &kind.Offerings[i]; offering.Reservation != "" && allows(o, offering) {
				return offering.Reservation
			}
		}
	}
	return ""
}

// allows reports whether the claim's requirements leave the offering open.
func allows(o *inventory.OpenLabels, offering *engine.Offering) bool {
	labels := kube.OfferingLabels(offering)
	for _, r := range o.Claim.Spec.Requirements {
		e := kube.PoolExpression(r)
		if value, ok := labels[e.Key]; ok && !e.Admits(value, true) {
			return false
		}
	}
	return true
}

// reservationOf is the number of the offering's reservation, -1 if it has none.
func (p *Problem) reservationOf(o *engine.Offering) int {
	if at, ok := p.reservations[o.Reservation]; ok && o.Reservation != "" {
		return at
	}
	return -1
}

func (p *Problem) slotsLeft(o *engine.Offering) bool {
	at := p.reservationOf(o)
	return at < 0 || p.Packing.Reservations[at] > 0
}
