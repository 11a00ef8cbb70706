// Package assortment computes a class's catalog from Azure's VM sizes: the labels and resources of each, and its offerings with prices. For
// each size that is left out, it gives the reason. It only computes: figures and prices come from Azure, or from the built-in ones of package
// catalog.
package assortment

import (
	"cmp"
	"slices"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/azure/price"
	"tenon.sh/provider/azure/size"
)

// UnknownPrice is the price in USD per hour of machines without a known price. They are bought only if nothing else is possible.
const UnknownPrice = 999.0

// RegionalZone is the value of label topology.kubernetes.io/zone on machines without a zone.
const RegionalZone = "0"

// Left is a size that a class cannot buy, with the reason.
type Left struct{ Size, Why string }

// List makes a class's catalog of these sizes, and lists the sizes that are left out, both in order of name. learned is the memory in bytes
// that nodes were seen to have, by size.
func List(sizes []size.Figures, s *size.Settings, prices map[string]price.Price, learned map[string]int64) ([]engine.InstanceType, []Left) {
	words, maps := words{}, offeringLabels{}
	limits := map[int]map[string]int{}
	types := make([]engine.InstanceType, 0, len(sizes))
	var left []Left
	for i := range sizes {
		f := &sizes[i]
		if why := f.Refused(s); why != "" {
			left = append(left, Left{f.Name, why})
			continue
		}
		labels := f.Labels(s)
		if why := f.Unfit(s, labels); why != "" {
			left = append(left, Left{f.Name, why})
			continue
		}
		// Most sizes accept both generations. A claim with one of these labels would be refused, because they only serve to choose images.
		delete(labels, size.LabelHyperVGeneration)
		delete(labels, size.LabelDiskController)
		offerings := maps.offerings(f, s, prices[f.Name])
		if len(offerings) == 0 {
			left = append(left, Left{f.Name, "the subscription may not have it in any zone"})
			continue
		}
		for key, values := range labels {
			labels[key] = words.share(values)
		}
		t := engine.InstanceType{Name: f.Name, Labels: labels, Capacity: f.Capacity(s, learned[f.Name]), Overhead: f.Overhead(s), Offerings: offerings}
		if n := f.DataDisks - s.DataDisks; n > 0 {
			if limits[n] == nil {
				limits[n] = map[string]int{size.DiskDriver: n}
			}
			t.AttachLimits = limits[n]
		}
		types = append(types, t)
	}
	slices.SortFunc(types, func(a, b engine.InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(left, func(a, b Left) int { return cmp.Compare(a.Size, b.Size) })
	return slices.Clip(types), left
}

// offeringLabels holds the labels of offerings, because many offerings share them.
type offeringLabels map[offeringKind]map[string]string

type offeringKind struct {
	capacityType string
	regional     bool
	noUltraSSD   bool
}

func (m offeringLabels) of(k offeringKind) map[string]string {
	if m[k] != nil {
		return m[k]
	}
	priority, scope := "regular", "zonal"
	if k.capacityType == v1.CapacityTypeSpot {
		priority = "spot"
	}
	if k.regional {
		scope = "regional"
	}
	m[k] = map[string]string{size.LabelScaleSetPriority: priority, size.LabelAKSPriority: priority, size.LabelPlacementScope: scope}
	if k.noUltraSSD {
		m[k][size.LabelUltraSSD] = "false"
	}
	return m[k]
}

// offerings lists the offerings of the size, zones first.
func (m offeringLabels) offerings(f *size.Figures, s *size.Settings, p price.Price) []engine.Offering {
	type place struct {
		zone             string
		regional, ultras bool
	}
	var places []place
	for _, z := range f.Usable() {
		places = append(places, place{s.Region + "-" + z.Number, false, z.UltraSSD})
	}
	if s.Regional || len(f.Zones) == 0 {
		places = append(places, place{RegionalZone, true, f.UltraSSD})
	}
	out := make([]engine.Offering, 0, 2*len(places))
	uses := map[string][]engine.QuotaUse{
		v1.CapacityTypeOnDemand: QuotaUses(f, v1.CapacityTypeOnDemand), v1.CapacityTypeSpot: QuotaUses(f, v1.CapacityTypeSpot),
	}
	add := func(capacityType string, at place, usd float64) {
		unknown := usd == 0
		if unknown {
			usd = UnknownPrice
		}
		labels := m.of(offeringKind{capacityType, at.regional, !f.Untold && !at.ultras})
		out = append(out, engine.Offering{Zone: at.zone, CapacityType: capacityType, Labels: labels, Price: usd, PriceUnknown: unknown, Quotas: uses[capacityType]})
	}
	for _, at := range places {
		add(v1.CapacityTypeOnDemand, at, p.OnDemand)
		if f.Spot {
			add(v1.CapacityTypeSpot, at, p.Spot)
		}
	}
	return slices.Clip(out)
}

// QuotaUses returns a machine's use of Azure's quotas of cores, by Azure's names of the quotas.
func QuotaUses(f *size.Figures, capacityType string) []engine.QuotaUse {
	if f.QuotaFamily == "" { // a figure from a built-in table, which has no quotas
		return nil
	}
	cores := int64(f.VCPUs)
	if capacityType == v1.CapacityTypeSpot {
		return []engine.QuotaUse{{Quota: "lowPriorityCores", Units: cores}}
	}
	return []engine.QuotaUse{{Quota: f.QuotaFamily, Units: cores}, {Quota: "cores", Units: cores}}
}

// words holds lists of label values that many types share.
type words map[string][]string

func (w words) share(values []string) []string {
	if len(values) != 1 {
		return append([]string{}, values...) // not null in a snapshot
	}
	if w[values[0]] == nil {
		w[values[0]] = values
	}
	return w[values[0]]
}
