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

// azureRegionName matches the names of Azure's regions: westeurope, eastus2, southafricanorth, usgovvirginia. azureZone matches the zones in
// labels of nodes: westeurope-1.
var (
	azureRegionName = regexp.MustCompile(`^(?:[a-z]+(?:north|south|east|west|central)[a-z]*|(?:north|south|east|west|central)[a-z]+|usgov[a-z]+)\d?$`)
	azureZone       = regexp.MustCompile(`^([a-z]+\d?)-[1-9]$`)
)

// IsAzureRegion reports whether a name has the form of a region of Azure.
func IsAzureRegion(name string) bool { return azureRegionName.MatchString(name) }

// AzureRegionOf returns the region of a zone, "" if the name does not have the form of Azure's zones.
func AzureRegionOf(zone string) string {
	if match := azureZone.FindStringSubmatch(zone); match != nil && IsAzureRegion(match[1]) {
		return match[1]
	}
	return ""
}

// Azure returns the built-in "azure" catalog: the VM sizes of Azure with their prices for Linux in East US, as nodes of AKS with Ubuntu and
// default settings would report them in a region. Every size is sold in its zones on demand, and as spot if a spot price is known. If
// regional is true, every size is sold without a zone as well.
//
// Sizes without a price are left out, as are sizes that AKS does not accept.
func Azure(region string, regional bool) []engine.InstanceType {
	settings := size.Defaults(region)
	settings.Regional = regional
	types, _ := AzureTypes(settings)
	return types
}

// AzureTypes returns the catalog that the provider would return for these settings, from the built-in figures of Azure, and the sizes that
// are left out with their reasons. Sizes, zones and prices are those of East US, whatever the region. If the figures lack a property (whether
// a size can have ultra disks), the size is assumed to have the property that the class demands.
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
