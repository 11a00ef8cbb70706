// Package sku reads the data of Azure's API about the VM sizes of a subscription. It calls no service.
package sku

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"tenon.sh/provider/azure/size"
)

// Figures returns the figures of a region's sizes, in order of name. left describes the sizes whose description cannot be read; the others
// are not affected.
func Figures(skus []*armcompute.ResourceSKU, region string) (out []size.Figures, left []string) {
	for _, s := range skus {
		if s == nil || text(s.ResourceType) != "virtualMachines" {
			continue
		}
		r := reader{has: capabilities(s.Capabilities)}
		f := r.read(s, region)
		if r.wrong != nil {
			left = append(left, fmt.Sprintf("VM size %s: %v", text(s.Name), r.wrong))
			continue
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b size.Figures) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(left)
	return out, left
}

// reader reads the capabilities of a size, all of which are text.
type reader struct {
	has   map[string]string
	wrong error // the first error
}

func capabilities(list []*armcompute.ResourceSKUCapabilities) map[string]string {
	out := map[string]string{}
	for _, c := range list {
		if c != nil && c.Name != nil && c.Value != nil {
			out[*c.Name] = *c.Value
		}
	}
	return out
}

func (r *reader) read(s *armcompute.ResourceSKU, region string) size.Figures {
	f := size.Figures{
		Name: text(s.Name), QuotaFamily: text(s.Family), Architecture: "amd64",
		VCPUs: int(r.whole("vCPUs", true)), MemoryMiB: int64(r.number("MemoryGB", true) * 1024), // the API calls GiB of memory GB
		GPUs: int(r.whole("GPUs", false)), DataDisks: int(r.whole("MaxDataDiskCount", false)),
		AcceleratedNetworking: r.is("AcceleratedNetworkingEnabled"), PremiumStorage: r.is("PremiumIO"),
		EncryptionAtHost: r.is("EncryptionAtHostSupported"), TrustedLaunchDisabled: r.is("TrustedLaunchDisabled"), Spot: r.is("LowPriorityCapable"),
		EphemeralOSDisk: r.is("EphemeralOSDiskSupported"), Placements: words(r.has["SupportedEphemeralOSDiskPlacements"]),
		CachedDiskBytes: r.whole("CachedDiskBytes", false), ResourceDiskMiB: r.whole("MaxResourceVolumeMB", false), NVMeDiskMiB: r.whole("NvmeDiskSizeInMiB", false),
		UltraSSD: r.is("UltraSSDAvailable"),
	}
	if usable := int(r.whole("vCPUsAvailable", false)); usable != f.VCPUs {
		f.AvailableVCPUs = usable
	}
	if strings.EqualFold(r.has["CpuArchitectureType"], "Arm64") {
		f.Architecture = "arm64"
	}
	for _, generation := range words(r.has["HyperVGenerations"]) {
		f.Generations = append(f.Generations, strings.TrimPrefix(generation, "V"))
	}
	for _, controller := range words(r.has["DiskControllerTypes"]) {
		for _, known := range []string{size.ControllerSCSI, size.ControllerNVMe} {
			if strings.EqualFold(controller, known) {
				f.DiskControllers = append(f.DiskControllers, known)
			}
		}
	}
	f.Zones = zones(s.LocationInfo, region)
	for _, restriction := range s.Restrictions {
		restrict(&f, restriction, region)
	}
	return f
}

// zones returns the zones of a region in which the size is sold.
func zones(locations []*armcompute.ResourceSKULocationInfo, region string) []size.Zone {
	var out []size.Zone
	for _, l := range locations {
		if l == nil || !strings.EqualFold(text(l.Location), region) {
			continue
		}
		ultra := map[string]bool{}
		for _, d := range l.ZoneDetails {
			for _, zone := range d.Name {
				ultra[text(zone)] = ultra[text(zone)] || strings.EqualFold(capabilities(d.Capabilities)["UltraSSDAvailable"], "True")
			}
		}
		for _, zone := range l.Zones {
			out = append(out, size.Zone{Number: text(zone), UltraSSD: ultra[text(zone)]})
		}
	}
	slices.SortFunc(out, func(a, b size.Zone) int { return strings.Compare(a.Number, b.Number) })
	return out
}

// restrict records the places in which the subscription may not use a size.
func restrict(f *size.Figures, r *armcompute.ResourceSKURestrictions, region string) {
	if r == nil || r.Type == nil || r.RestrictionInfo != nil && len(r.RestrictionInfo.Locations) > 0 && !holds(r.RestrictionInfo.Locations, region) {
		return
	}
	switch *r.Type {
	case armcompute.ResourceSKURestrictionsTypeLocation:
		f.Restricted = true
	case armcompute.ResourceSKURestrictionsTypeZone:
		for i := range f.Zones {
			if r.RestrictionInfo != nil && holds(r.RestrictionInfo.Zones, f.Zones[i].Number) {
				f.Zones[i].Restricted = true
			}
		}
	}
}

func holds(list []*string, value string) bool {
	return slices.ContainsFunc(list, func(s *string) bool { return strings.EqualFold(text(s), value) })
}

func (r *reader) is(name string) bool { return strings.EqualFold(r.has[name], "True") }

func (r *reader) number(name string, needed bool) float64 {
	value, there := r.has[name]
	if !there && !needed {
		return 0
	}
	n, err := strconv.ParseFloat(value, 64)
	if (err != nil || !(n >= 0 && n < 1<<52)) && r.wrong == nil {
		r.wrong = fmt.Errorf("capability %s is %q: want a number", name, value)
	}
	return n
}

func (r *reader) whole(name string, needed bool) int64 {
	n := r.number(name, needed)
	if n != float64(int64(n)) && r.wrong == nil {
		r.wrong = fmt.Errorf("capability %s is %q: want a whole number", name, r.has[name])
	}
	return int64(n)
}

// words splits a list whose separator varies.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ';' || r == '|' || r == ' ' })
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
