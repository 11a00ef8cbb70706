package market

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/assortment"
	"tenon.sh/provider/aws/find"
	"tenon.sh/provider/aws/size"
	"tenon.sh/provider/aws/soldout"
)

// Want holds a class's inputs to the market. Classes with equal inputs get the same catalog.
type Want struct {
	Settings size.Settings
	Demands  size.Demands
	// Subnets and Reservations are the ones that were found for the class.
	Subnets      []awsv1.Subnet
	Reservations []awsv1.CapacityReservation
	// Images are the class's images, in order of preference.
	Images []awsv1.AMI
	Group  *find.PlacementGroup
}

// place is a zone in which the class has subnets.
type place struct {
	assortment.Place
	subnets []string
}

// places returns the zones of the class's subnets, in order.
func (w *Want) places() (out []place) {
	for _, s := range w.Subnets {
		i := slices.IndexFunc(out, func(p place) bool { return p.Zone == s.Zone })
		if i < 0 {
			i = len(out)
			out = append(out, place{Place: assortment.Place{Zone: s.Zone}})
		}
		out[i].ZoneID = cmp.Or(out[i].ZoneID, s.ZoneID)
		out[i].subnets = append(out[i].subnets, s.ID)
	}
	slices.SortFunc(out, func(a, b place) int { return cmp.Compare(a.Zone, b.Zone) })
	return out
}

// zonesOf returns the places without their subnets.
func zonesOf(places []place) (out []assortment.Place) {
	for _, p := range places {
		out = append(out, p.Place)
	}
	return out
}

func (w *Want) soldOutPlace(p place) soldout.Place {
	out := soldout.Place{Zone: p.Zone, ZoneID: p.ZoneID, Subnets: p.subnets}
	if w.Group != nil {
		out.Group, out.Partitions = w.Group.ID, w.Group.Partitions
	}
	return out
}

// keyOf returns the same text for the same values.
func keyOf(parts ...any) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(fmt.Sprintf("write %T: %v", parts, err)) // they are all plain values
	}
	return string(text)
}
