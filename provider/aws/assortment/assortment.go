// Package assortment computes a class's catalog from a list of instance types: the labels and resources of each, and its offerings with
// prices. It only computes: package market gets the figures, prices and shortages from EC2; package catalog has built-in ones.
package assortment

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/provider/aws/devicetable"
	"tenon.sh/provider/aws/expression"
	"tenon.sh/provider/aws/images"
	"tenon.sh/provider/aws/size"
)

// Place is a zone in which machines of a class can be.
type Place struct {
	Zone string
	// ZoneID is the zone's name in all accounts, "" if it is not known.
	ZoneID string
	// Region is the zone's region if machines may be in several regions. It is "" if all machines are in one region.
	Region string
}

// labels returns the labels of machines in the zone.
func (p *Place) labels() map[string]string {
	var labels map[string]string
	for _, l := range []struct{ key, value string }{{awsv1.ZoneIDLabelKey, p.ZoneID}, {corev1.LabelTopologyRegion, p.Region}} {
		if l.value == "" {
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[l.key] = l.value
	}
	return labels
}

// Prices returns the prices of machines, in USD per hour; the bool is false if the price is not known.
type Prices interface {
	OnDemand(kind string) (float64, bool)
	Spot(kind, zone string) (float64, bool)
}

// Labels returns the labels of every type, in the order of types, for machines of an image family in a region.
func Labels(types []size.Figures, region, family string) []map[string][]string {
	out := make([]map[string][]string, len(types))
	words := words{}
	for i := range types {
		out[i] = types[i].Labels(region, family, images.WindowsBuild(family))
		for key, values := range out[i] {
			out[i][key] = words.share(values)
		}
	}
	return out
}

// words holds lists of label values that many types share.
type words map[string][]string

func (w words) share(values []string) []string {
	if len(values) == 0 {
		return []string{} // not null in a snapshot
	}
	if len(values) > 1 {
		return values
	}
	if w[values[0]] == nil {
		w[values[0]] = values
	}
	return w[values[0]]
}

// Size holds the resources of a node of a type, its overhead, its volume limits as in engine.InstanceType, and its devices.
type Size struct {
	Capacity, Overhead corev1.ResourceList
	Attach, Shared     map[string]int
	Devices            *engine.DeviceSource
	Claimable          []device.Template
}

// Sizes returns the size of every type, in the order of types. calculator may be nil, see size.Computed; learned is the memory that nodes
// were seen to have, by type. The error says why a size cannot be computed.
func Sizes(types []size.Figures, settings *size.Settings, calculator *expression.Calculator, learned map[string]int64) ([]Size, error) {
	out := make([]Size, len(types))
	counts := map[int]map[string]int{} // maps that many types share
	ofEBS := func(n int) map[string]int {
		if counts[n] == nil {
			counts[n] = map[string]int{size.EBSDriver: n}
		}
		return counts[n]
	}
	expect := devicetable.For(settings)
	for i := range types {
		f := &types[i]
		computed, _, err := f.Computed(settings, calculator)
		if err != nil {
			return nil, err
		}
		limit, shared := f.AttachLimit(computed)
		out[i] = Size{f.Capacity(computed, learned[f.Name]), f.Overhead(computed), ofEBS(limit), nil, f.Devices(computed), expect(f)}
		if shared > 0 {
			out[i].Shared = ofEBS(shared)
		}
	}
	return out, nil
}

// Offerings lists the offerings of every type without reservations, in the order of types. zones has the sorted zones in which each type is
// sold; nil means all zones. An offering without a price is listed as sold out: it cannot be bought, but machines of it have not drifted.
func Offerings(types []size.Figures, zones map[string][]string, prices Prices, places []Place) [][]engine.Offering {
	labels := make([]map[string]string, len(places))
	for i := range places {
		labels[i] = places[i].labels()
	}
	out := make([][]engine.Offering, len(types))
	for i := range types {
		f := &types[i]
		onDemand, priced := prices.OnDemand(f.Name)
		for j, p := range places {
			if _, sold := slices.BinarySearch(zones[f.Name], p.Zone); !sold && zones != nil {
				continue
			}
			if f.OnDemand {
				out[i] = append(out[i], engine.Offering{Zone: p.Zone, CapacityType: v1.CapacityTypeOnDemand, Labels: labels[j], Price: onDemand, SoldOut: !priced, Unpriced: !priced})
			}
			if f.Spot {
				spot, known := prices.Spot(f.Name, p.Zone)
				if !known {
					spot = onDemand
				}
				out[i] = append(out[i], engine.Offering{Zone: p.Zone, CapacityType: v1.CapacityTypeSpot, Labels: labels[j], Price: spot, SoldOut: !known, Unpriced: !known})
			}
		}
		out[i] = slices.Clip(out[i])
	}
	return out
}

// Select makes a class's catalog: the types that meet its demands, for which it has an image, and that have offerings. labels, sizes and sold
// are in the order of types. If the class has no images yet, it keeps types of all kinds.
func Select(types []size.Figures, demands *size.Demands, kinds []images.Requirements, labels []map[string][]string, sizes []Size, sold func(i int) []engine.Offering) []engine.InstanceType {
	out := make([]engine.InstanceType, 0, len(types))
	for i := range types {
		f := &types[i]
		if !f.Meets(demands) || !runs(kinds, labels[i]) {
			continue
		}
		if offerings := sold(i); len(offerings) > 0 {
			out = append(out, engine.InstanceType{
				Name: f.Name, Labels: labels[i], Capacity: sizes[i].Capacity, Overhead: sizes[i].Overhead,
				AttachLimits: sizes[i].Attach, AttachShared: sizes[i].Shared, Devices: sizes[i].Devices, Claimable: sizes[i].Claimable, Offerings: offerings,
			})
		}
	}
	return slices.Clip(out)
}

func runs(kinds []images.Requirements, labels map[string][]string) bool {
	return len(kinds) == 0 || slices.ContainsFunc(kinds, func(k images.Requirements) bool { return images.Fits(k, labels) })
}
