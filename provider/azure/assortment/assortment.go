// Package assortment lists what a class can buy of Azure's VM sizes: each with its labels, what a node of it has, and where it is
// sold at which price; and says of the others why it cannot. It only computes: figures and prices come from Azure, or from package
// catalog, where they are built in.
package assortment

import (
	"cmp"
	"slices"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/azure/price"
	"tenon.sh/provider/azure/size"
)

// UnknownPrice stands for a price that nobody knows, in USD per hour: such machines are bought where nothing else will do.
const UnknownPrice = 999.0

// RegionalZone is what label topology.kubernetes.io/zone says of machines that are in no zone in particular.
const RegionalZone = "0"

// Left is a size that a class cannot buy.
type Left struct{ Size, Why string }

// List makes a class's catalog of these sizes, and lists those that are left out, both in order of name. learned is the memory in
// bytes that nodes were seen to have, by size.
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
		// Most sizes take either generation. A claim that said which is meant would be refused: only images are chosen by it.
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

// offeringLabels holds the labels of offerings, which many of them share.
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

// offerings lists where the size is sold, zones first.
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

// QuotaUses is what a machine of the size takes of Azure's quotas of cores, by the names that Azure gives them.
func QuotaUses(f *size.Figures, capacityType string) []engine.QuotaUse {
	if f.QuotaFamily == "" { // of built-in tables, which know of no subscription
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
