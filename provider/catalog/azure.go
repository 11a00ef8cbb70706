package catalog

import (
	"cmp"
	"regexp"
	"slices"

	"tenon.sh/engine"
	"tenon.sh/provider/azure/assortment"
	"tenon.sh/provider/azure/size"
)

// AzureRegion is the region of Azure whose sizes and prices are built in.
const AzureRegion = "eastus"

// azureRegionName are the names of Azure's regions: westeurope, eastus2, southafricanorth, usgovvirginia. azureZone are those of zones
// on nodes: westeurope-1.
var (
	azureRegionName = regexp.MustCompile(`^(?:[a-z]+(?:north|south|east|west|central)[a-z]*|(?:north|south|east|west|central)[a-z]+|usgov[a-z]+)\d?$`)
	azureZone       = regexp.MustCompile(`^([a-z]+\d?)-[1-9]$`)
)

// IsAzureRegion reports whether a name has the form of a region of Azure.
func IsAzureRegion(name string) bool { return azureRegionName.MatchString(name) }

// AzureRegionOf is the region of a zone, "" if the name is not of the form of Azure's.
func AzureRegionOf(zone string) string {
	if match := azureZone.FindStringSubmatch(zone); match != nil && IsAzureRegion(match[1]) {
		return match[1]
	}
	return ""
}

// Azure returns the built-in "azure" catalog: the VM sizes of Azure with their prices with Linux in East US, as nodes of AKS with
// Ubuntu and default settings would report them in a region. Every size is sold in its zones, on demand and, where a spot price is
// known, spot; regional has it sold in no zone in particular as well.
//
// Sizes without a price are left out, and those that AKS does not take.
func Azure(region string, regional bool) []engine.InstanceType {
	settings := size.Defaults(region)
	settings.Regional = regional
	types, _ := AzureTypes(settings)
	return types
}

// AzureTypes lists what can be bought with these settings, as the provider would, from the figures of Azure, and what cannot and
// why. Whatever the region, sizes, zones and prices are those of East US. What the figures do not tell, whether a size can have ultra
// disks for example, is taken to be as the class wants it.
func AzureTypes(s size.Settings) ([]engine.InstanceType, []assortment.Left) {
	all, prices := BuiltInAzure()
	sold := make([]size.Figures, 0, len(all))
	var left []assortment.Left
	for i := range all {
		switch f := &all[i]; {
		case len(f.Zones) == 0:
			left = append(left, assortment.Left{Size: f.Name, Why: "it is not sold in " + AzureRegion})
		case prices[f.Name].OnDemand == 0:
			left = append(left, assortment.Left{Size: f.Name, Why: "no price of it is known in " + AzureRegion})
		default:
			sold = append(sold, *f)
		}
	}
	types, others := assortment.List(sold, &s, prices, nil)
	left = append(left, others...)
	slices.SortFunc(left, func(a, b assortment.Left) int { return cmp.Compare(a.Size, b.Size) })
	return types, left
}
