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

// mostTypes is how many instance types one call names.
const mostTypes = 60

// capacityTypeOrder is the kinds of capacity that a launch asks for, one after the other: reservations first, because they are paid
// for, then spot, then on-demand, and last spot that costs more than on-demand. Within a kind the offers are in order of
// price. Machines with accelerators, and those without a hypervisor, are left out if anything else will do.
func capacityTypeOrder(list []offer.Offer, claim *v1.NodeClaim) [][]offer.Offer {
	flexible := false // what a claim with minValues lists is needed in its variety
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
	// What has no price is sold out, and says nothing about what is dear.
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

// cheapestTypes leaves so many types as one call can name, and what is sold out anyway.
func cheapestTypes(kind []offer.Offer) []offer.Offer {
	kept := map[string]bool{}
	for _, o := range kind {
		if len(kept) < mostTypes && !o.SoldOut {
			kept[o.InstanceType] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(kind), func(o offer.Offer) bool { return !kept[o.InstanceType] && !o.SoldOut })
}

// reservedOffers sorts reservations by kind, as one call can only ask for one: the kind with the cheapest offer first; of
// equal ones ordinary reservations, then capacity blocks, then those that can be taken back. A call names one reservation
// for each type and zone, the one with most room, and a single capacity block.
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

// roomiestFirst keeps the order of prices; of one price those come first that have most room.
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

// withoutSwitches is the claim without what is asked for like a resource and turns a feature on: no machine lists it.
func withoutSwitches(claim *v1.NodeClaim) *v1.NodeClaim {
	if _, asked := claim.Spec.Resources.Requests[awsv1.ResourceNitroSandbox]; !asked {
		return claim
	}
	claim = claim.DeepCopy()
	delete(claim.Spec.Resources.Requests, corev1.ResourceName(awsv1.ResourceNitroSandbox))
	return claim
}
