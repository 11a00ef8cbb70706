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

// reservedPart is the price of a reserved machine as a share of the on-demand price. It is tiny because the machine is paid for already and
// must be used before all others. It keeps the order of on-demand prices.
const reservedPart = 1e-7

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
			SoldOut: m.noReserved || r.State == awsv1.ReservationExpiring, Reservation: r.ID, Slots: m.slots.Free(r.ID),
		})
	}
	return out
}

// withoutTimes removes the end times of reservations, because they do not change the catalog.
func withoutTimes(list []awsv1.CapacityReservation) []awsv1.CapacityReservation {
	out := slices.Clone(list)
	for i := range out {
		out[i].EndTime = nil
	}
	return out
}
