package catalog

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/provider/azure/price"
	"tenon.sh/provider/azure/size"
)

func TestAzureCatalogHasTheFiguresOfItsNodes(t *testing.T) {
	types := Azure(AzureRegion, false)
	if len(types) < 938 {
		t.Fatalf("%d types", len(types))
	}
	d4 := find(t, types, "Standard_D4ads_v5")
	wantLabels(t, d4, map[string]string{
		"karpenter.azure.com/sku-name": "Standard_D4ads_v5", "karpenter.azure.com/sku-family": "D", "karpenter.azure.com/sku-series": "Dads_v5",
		"karpenter.azure.com/sku-version": "5", "karpenter.azure.com/sku-cpu": "4", "karpenter.azure.com/sku-memory": "16384",
		"karpenter.azure.com/sku-storage-premium-capable": "true", "karpenter.azure.com/sku-gpu-count": "0",
		"topology.kubernetes.io/region": "eastus", "kubernetes.io/arch": "amd64",
	})
	wantQuantities(t, d4, d4.Capacity, map[corev1.ResourceName]string{"cpu": "4", "pods": "250", "ephemeral-storage": "128G", "memory": "15891378995"})
	wantQuantities(t, d4, d4.Overhead, map[corev1.ResourceName]string{"cpu": "140m", "memory": "3412Mi"})
	if d4.AttachLimits["disk.csi.azure.com"] != 8 {
		t.Errorf("a node takes disks %v", d4.AttachLimits)
	}
	if got := sold(d4); got != "eastus-1/on-demand eastus-1/spot eastus-2/on-demand eastus-2/spot eastus-3/on-demand eastus-3/spot" {
		t.Errorf("sold in %s", got)
	}
	if o := d4.Offerings[0]; o.Price != 0.206 || o.Labels["karpenter.azure.com/placement-scope"] != "zonal" {
		t.Errorf("offering %+v", o)
	}
	a100 := find(t, types, "Standard_NC24ads_A100_v4")
	wantQuantities(t, a100, a100.Capacity, map[corev1.ResourceName]string{"nvidia.com/gpu": "1"})
	if got := sold(a100); got != "eastus-3/on-demand eastus-3/spot" {
		t.Errorf("A100s are sold in %s", got)
	}
	wantLabels(t, find(t, types, "Standard_D16plds_v5"), map[string]string{"kubernetes.io/arch": "arm64"})
	if got := sold(find(t, types, "Standard_B2ms")); strings.Contains(got, "spot") {
		t.Errorf("a size without a spot price is sold in %s", got)
	}
	if got := sold(find(t, Azure("westeurope", true), "Standard_NC24ads_A100_v4")); got != "westeurope-3/on-demand westeurope-3/spot 0/on-demand 0/spot" {
		t.Errorf("in another region, and in no zone as well, A100s are sold in %s", got)
	}
}

func sold(it engine.InstanceType) string {
	var out []string
	for _, o := range it.Offerings {
		out = append(out, o.Zone+"/"+o.CapacityType)
	}
	return strings.Join(out, " ")
}

func TestEverySizeOfTheTableIsOfferedOrItIsSaidWhyNot(t *testing.T) {
	figures, _ := BuiltInAzure()
	if len(figures) < 1440 {
		t.Errorf("%d sizes, the table has 1440", len(figures))
	}
	types, left := AzureTypes(size.Defaults(AzureRegion))
	said := map[string]string{}
	for _, it := range types {
		said[it.Name] = "offered"
	}
	for _, l := range left {
		if said[l.Size] != "" || l.Why == "" {
			t.Errorf("%s: %q, and %q", l.Size, said[l.Size], l.Why)
		}
		said[l.Size] = l.Why
	}
	for _, f := range figures {
		if said[f.Name] == "" {
			t.Errorf("nothing is said of %s", f.Name)
		}
	}
	for name, want := range map[string]string{
		"Standard_D2s_v5": "offered", "Standard_B1ls": "it has too few cores", "Standard_E16-4ads_v5": "its number of cores is constrained",
		"Standard_NV16as_v4": "nothing is known of its GPUs", "Standard_NV4ads_V710_v5": "there is no driver for its GPUs",
		"Standard_G3": "no price of it is known in eastus", "Standard_E64i_v3": "it is not sold in eastus", "Standard_DC4as_v5": "it is for confidential computing",
	} {
		if said[name] != want {
			t.Errorf("%s: %q, want %q", name, said[name], want)
		}
	}
}

// Prices of Windows that looked like prices of Linux once made two thirds of a family look expensive.
func TestNoPriceIsThatOfWindows(t *testing.T) {
	figures, prices := BuiltInAzure()
	cores := map[string]int{}
	for _, f := range figures {
		cores[f.Name] = f.VCPUs
	}
	wrong := price.Corrected(prices, cores, func(name string) string {
		parsed, _ := size.ParseName(name)
		return parsed.Series
	})
	if len(wrong) > 0 {
		t.Errorf("these prices should be others: %v", wrong)
	}
	for name, usd := range map[string]float64{
		"Standard_D48ads_v5": 2.472, "Standard_D64as_v5": 2.752, "Standard_E48ads_v5": 3.144, "Standard_E20as_v5": 1.13, "Standard_B16als_v2": 0.533,
		"Standard_D2as_v5": 0.086, "Standard_E8as_v5": 0.452, "Standard_D16ads_v5": 0.824,
	} {
		if got := prices[name].OnDemand; got != usd {
			t.Errorf("%s costs %v, want %v", name, got, usd)
		}
	}
}

func TestRegionsOfAzure(t *testing.T) {
	for zone, want := range map[string]string{"westeurope-1": "westeurope", "eastus2-3": "eastus2", "southafricanorth-2": "southafricanorth",
		"usgovvirginia-1": "usgovvirginia", "eastasia-1": "eastasia", "uksouth-2": "uksouth", "australiacentral2-1": "australiacentral2"} {
		if got := AzureRegionOf(zone); got != want || RegionOf(zone) != "" {
			t.Errorf("%s is in %q, want %q", zone, got, want)
		}
	}
	for _, other := range []string{"", "0", "eastus", "us-east-1a", "test-zone-a", "rack-1", "west-1", "us-central1-a", "eastus-0"} {
		if got := AzureRegionOf(other); got != "" {
			t.Errorf("%q is taken for a zone in %s", other, got)
		}
	}
	for name, want := range map[string]bool{"eastus": true, "europe": false, "us-east-1": false, "east": false, "germanywestcentral": true, "": false} {
		if IsAzureRegion(name) != want {
			t.Errorf("%q is a region: %v", name, !want)
		}
	}
}

func TestEachCallMakesAnotherCatalogOfAzure(t *testing.T) {
	types := Azure(AzureRegion, false)
	types[0].Offerings[0].SoldOut = true
	if again := Azure(AzureRegion, false); again[0].Offerings[0].SoldOut || !slices.IsSortedFunc(again, func(a, b engine.InstanceType) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("a caller's catalog is another's")
	}
}

// BenchmarkAzure makes the catalog of all sizes in all zones, after the figures have been read.
func BenchmarkAzure(b *testing.B) {
	BuiltInAzure()
	b.ReportAllocs()
	for b.Loop() {
		Azure(AzureRegion, true)
	}
}
