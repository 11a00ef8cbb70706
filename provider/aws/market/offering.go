package market

import (
	"slices"
	"strconv"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/aws/price"
	"tenon.sh/provider/aws/size"
)

// reservedPart is what a reserved machine costs of the price on demand: it is paid for already, and it is to be used before
// anything else, the dearest first.
const reservedPart = 1e-7

// offeringsOf lists where every type is sold without a reservation, in the order of the stock. What has no price is listed
// as sold out: it cannot be bought, but machines of it are not what nobody sells.
func offeringsOf(s *stock, book price.Book, places []place) [][]engine.Offering {
	labels := map[string]map[string]string{}
	for _, p := range places {
		if p.ZoneID != "" {
			labels[p.Zone] = map[string]string{awsv1.ZoneIDLabelKey: p.ZoneID}
		}
	}
	out := make([][]engine.Offering, len(s.types))
	for i := range s.types {
		f := &s.types[i]
		onDemand, priced := book.OnDemand(f.Name)
		for _, p := range places {
			if _, sold := slices.BinarySearch(s.zones[f.Name], p.Zone); !sold {
				continue
			}
			if f.OnDemand {
				out[i] = append(out[i], engine.Offering{Zone: p.Zone, CapacityType: v1.CapacityTypeOnDemand, Labels: labels[p.Zone], Price: onDemand, SoldOut: !priced})
			}
			if f.Spot {
				spot, known := book.Spot(f.Name, p.Zone)
				if !known {
					spot = onDemand
				}
				out[i] = append(out[i], engine.Offering{Zone: p.Zone, CapacityType: v1.CapacityTypeSpot, Labels: labels[p.Zone], Price: spot, SoldOut: !known})
			}
		}
		out[i] = slices.Clip(out[i])
	}
	return out
}

// reservedOfferings lists the reservations of a type in the class's zones.
func (m *Market) reservedOfferings(f *size.Figures, book price.Book, reservations []awsv1.CapacityReservation, places []place) (out []engine.Offering) {
	onDemand, _ := book.OnDemand(f.Name)
	for _, r := range reservations {
		i := slices.IndexFunc(places, func(p place) bool { return p.Zone == r.AvailabilityZone })
		if r.InstanceType != f.Name || i < 0 {
			continue
		}
		labels := map[string]string{
			awsv1.ReservationIDLabelKey:            r.ID,
			awsv1.ReservationTypeLabelKey:          r.ReservationType,
			awsv1.ReservationInterruptibleLabelKey: strconv.FormatBool(r.Interruptible),
		}
		if places[i].ZoneID != "" {
			labels[awsv1.ZoneIDLabelKey] = places[i].ZoneID
		}
		out = append(out, engine.Offering{
			Zone: r.AvailabilityZone, CapacityType: v1.CapacityTypeReserved, Labels: labels, Price: onDemand * reservedPart,
			SoldOut: r.State == awsv1.ReservationExpiring, Reservation: r.ID, Slots: m.slots.Free(r.ID),
		})
	}
	return out
}

// withoutTimes leaves out when reservations end: that changes nothing here.
func withoutTimes(list []awsv1.CapacityReservation) []awsv1.CapacityReservation {
	out := slices.Clone(list)
	for i := range out {
		out[i].EndTime = nil
	}
	return out
}
