package aws

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws/size"
	"tenon.sh/provider/offer"
)

// mostTypes is the largest number of instance types in one call.
const mostTypes = 60

// capacityTypeOrder groups offers by the order in which a launch asks for them: reservations first, because they are paid for, then spot,
// then on-demand, and last spot offers that cost more than on-demand. Each group is in order of price. Machines with accelerators, and
// machines without a hypervisor, are left out if the claim has other offers.
func capacityTypeOrder(list []offer.Offer, claim *v1.NodeClaim) [][]offer.Offer {
	flexible := false // a claim with minValues needs all its types
	for _, r := range claim.Spec.Requirements {
		flexible = flexible || r.MinValues != nil
	}
	if !flexible {
		list = unlessExotic(list)
	}
	byKind := map[string][]offer.Offer{}
	for _, o := range list {
		byKind[o.CapacityType] = append(byKind[o.CapacityType], o)
	}
	onDemand, spot := byKind[v1.CapacityTypeOnDemand], byKind[v1.CapacityTypeSpot]
	var dear []offer.Offer
	// Offers without a price are sold out, and do not count here.
	if i := slices.IndexFunc(onDemand, func(o offer.Offer) bool { return o.Price > 0 && !o.SoldOut }); i >= 0 && !flexible {
		isDear := func(o offer.Offer) bool { return o.Price > onDemand[i].Price }
		for _, o := range spot {
			if isDear(o) {
				dear = append(dear, o)
			}
		}
		spot = slices.DeleteFunc(slices.Clone(spot), isDear)
	}
	out := reservedOffers(byKind[v1.CapacityTypeReserved])
	for _, kind := range [][]offer.Offer{spot, onDemand, dear} {
		if !flexible {
			kind = cheapestTypes(kind)
		}
		if len(kind) > 0 {
			out = append(out, kind)
		}
	}
	return out
}

func unlessExotic(list []offer.Offer) []offer.Offer {
	ordinary := slices.DeleteFunc(slices.Clone(list), func(o offer.Offer) bool { return size.Exotic(o.Type) })
	if len(ordinary) == 0 {
		return list
	}
	return ordinary
}

// cheapestTypes keeps the cheapest types, as many as one call can name, and the sold-out offers.
func cheapestTypes(kind []offer.Offer) []offer.Offer {
	kept := map[string]bool{}
	for _, o := range kind {
		if len(kept) < mostTypes && !o.SoldOut {
			kept[o.InstanceType] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(kind), func(o offer.Offer) bool { return !kept[o.InstanceType] && !o.SoldOut })
}

// reservedOffers groups reservations by kind, because one call can ask for only one kind. The kind with the cheapest offer comes first; at
// equal prices, ordinary reservations come before capacity blocks, and interruptible ones come last. A group has one reservation for each
// type and zone, the one with the most room. A group of capacity blocks has one block.
func reservedOffers(reserved []offer.Offer) (out [][]offer.Offer) {
	kinds := make([][]offer.Offer, 3)
	for _, o := range reserved {
		kind := 0
		switch {
		case o.Labels[awsv1.ReservationTypeLabelKey] == awsv1.ReservationBlock:
			kind = 1
		case o.Labels[awsv1.ReservationInterruptibleLabelKey] == "true":
			kind = 2
		}
		kinds[kind] = append(kinds[kind], o)
	}
	kinds = slices.DeleteFunc(kinds, func(k []offer.Offer) bool { return len(k) == 0 })
	slices.SortStableFunc(kinds, func(a, b []offer.Offer) int { return cmp.Compare(a[0].Price, b[0].Price) })
	for _, kind := range kinds {
		for len(kind) > 0 {
			var now, later []offer.Offer
			for _, o := range roomiestFirst(kind) {
				taken := slices.ContainsFunc(now, func(other offer.Offer) bool {
					return other.InstanceType == o.InstanceType && other.Zone == o.Zone || o.Labels[awsv1.ReservationTypeLabelKey] == awsv1.ReservationBlock
				})
				if taken {
					later = append(later, o)
				} else {
					now = append(now, o)
				}
			}
			out = append(out, now)
			kind = later
		}
	}
	return out
}

// roomiestFirst sorts by price, then by the room of reservations, the largest first.
func roomiestFirst(list []offer.Offer) []offer.Offer {
	slots := func(o offer.Offer) int {
		for _, other := range o.Type.Offerings {
			if other.Reservation == o.Reservation {
				return other.Slots
			}
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(list), func(a, b offer.Offer) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(slots(b), slots(a)))
	})
}

// withoutSwitches removes from the claim a requested resource that only turns a feature on, because no machine lists it as a resource.
func withoutSwitches(claim *v1.NodeClaim) *v1.NodeClaim {
	if _, asked := claim.Spec.Resources.Requests[awsv1.ResourceNitroSandbox]; !asked {
		return claim
	}
	claim = claim.DeepCopy()
	delete(claim.Spec.Resources.Requests, corev1.ResourceName(awsv1.ResourceNitroSandbox))
	return claim
}
