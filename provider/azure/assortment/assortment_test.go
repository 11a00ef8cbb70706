package assortment_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/provider/azure/assortment"
	"tenon.sh/provider/azure/price"
	"tenon.sh/provider/azure/size"
)

var prices = map[string]price.Price{"Standard_D4s_v5": {OnDemand: 0.2, Spot: 0.04}, "Standard_D8s_v5": {OnDemand: 0.4}}

func figures(name string, change ...func(*size.Figures)) size.Figures {
	f := size.Figures{Name: name, Architecture: "amd64", VCPUs: 4, MemoryMiB: 16 << 10, DataDisks: 8, Generations: []string{"2"}, Spot: true,
		Zones: []size.Zone{{Number: "1"}, {Number: "2"}}}
	for _, c := range change {
		c(&f)
	}
	return f
}

// offerings describes the offerings of the only size: zone, capacity type, price, and labels.
func offerings(t *testing.T, f size.Figures, change ...func(*size.Settings)) string {
	t.Helper()
	s := size.Defaults("eastus")
	for _, c := range change {
		c(&s)
	}
	types, _ := assortment.List([]size.Figures{f}, &s, prices, nil)
	if len(types) != 1 {
		return ""
	}
	var out []string
	for _, o := range types[0].Offerings {
		if o.Labels["kubernetes.azure.com/priority"] != o.Labels["kubernetes.azure.com/scalesetpriority"] {
			t.Errorf("offering %+v has two priorities", o)
		}
		text := fmt.Sprintf("%s/%s/%s/%s/%v", o.Zone, o.Labels["karpenter.azure.com/placement-scope"], o.CapacityType, o.Labels["kubernetes.azure.com/priority"], o.Price)
		if ultra := o.Labels["karpenter.azure.com/sku-storage-ultra-ssd"]; ultra != "" {
			text += "/ultra-ssd " + ultra
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestWhereASizeIsSold(t *testing.T) {
	untold := func(f *size.Figures) { f.Untold = true }
	regional := func(s *size.Settings) { s.Regional = true }
	for _, c := range []struct {
		name, want string
		f          size.Figures
		change     []func(*size.Settings)
	}{
		{"in its zones", "eastus-1/zonal/on-demand/regular/0.2 eastus-1/zonal/spot/spot/0.04 eastus-2/zonal/on-demand/regular/0.2 eastus-2/zonal/spot/spot/0.04", figures("Standard_D4s_v5", untold), nil},
		{"in no zone as well", "eastus-1/zonal/on-demand/regular/0.2 eastus-2/zonal/on-demand/regular/0.2 0/regional/on-demand/regular/0.2",
			figures("Standard_D4s_v5", untold, func(f *size.Figures) { f.Spot = false }), []func(*size.Settings){regional}},
		{"where there are no zones", "0/regional/on-demand/regular/0.2 0/regional/spot/spot/0.04", figures("Standard_D4s_v5", untold, func(f *size.Figures) { f.Zones = nil }), nil},
		{"not in a zone that the subscription may not have it in", "eastus-2/zonal/on-demand/regular/0.2 eastus-2/zonal/spot/spot/0.04",
			figures("Standard_D4s_v5", untold, func(f *size.Figures) { f.Zones[0].Restricted = true }), nil},
		{"nowhere", "", figures("Standard_D4s_v5", func(f *size.Figures) { f.Zones[0].Restricted, f.Zones[1].Restricted = true, true }), nil},
		{"at a price that nobody knows", "eastus-1/zonal/on-demand/regular/0.4 eastus-1/zonal/spot/spot/999 eastus-2/zonal/on-demand/regular/0.4 eastus-2/zonal/spot/spot/999", figures("Standard_D8s_v5", untold), nil},
		{"ultra disks in one zone only", "eastus-1/zonal/on-demand/regular/0.2/ultra-ssd false eastus-2/zonal/on-demand/regular/0.2 0/regional/on-demand/regular/0.2/ultra-ssd false",
			figures("Standard_D4s_v5", func(f *size.Figures) { f.Spot, f.Zones[1].UltraSSD = false, true }), []func(*size.Settings){regional}},
	} {
		if got := offerings(t, c.f, c.change...); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestUltraDisksAreForWhoAsks(t *testing.T) {
	s := size.Defaults("eastus")
	types, _ := assortment.List([]size.Figures{
		figures("Standard_D4s_v5", func(f *size.Figures) { f.Zones[1].UltraSSD = true }),
		figures("Standard_D8s_v5"),
	}, &s, prices, nil)
	if got := types[0].Labels[size.LabelUltraSSD]; !slices.Equal(got, []string{"false", "true"}) {
		t.Errorf("a size with ultra disks in a zone can be %v", got)
	}
	if got := types[1].Labels[size.LabelUltraSSD]; !slices.Equal(got, []string{"false"}) {
		t.Errorf("a size without ultra disks can be %v", got)
	}
}

func TestWhatIsLeftOutSaysWhy(t *testing.T) {
	s := size.Defaults("eastus")
	s.EncryptionAtHost = true
	encrypts := func(f *size.Figures) { f.EncryptionAtHost = true }
	types, left := assortment.List([]size.Figures{
		figures("Standard_D8s_v5", encrypts), figures("Standard_DC4as_v5", encrypts), figures("Standard_D4s_v5", encrypts), figures("Standard_D2s_v5"),
		figures("Standard_D16s_v5", encrypts, func(f *size.Figures) { f.Zones = []size.Zone{{Number: "1", Restricted: true}} }),
	}, &s, prices, map[string]int64{"Standard_D4s_v5": 15 << 30})
	if names := slices.Collect(func(yield func(string) bool) {
		for _, it := range types {
			if !yield(it.Name) {
				return
			}
		}
	}); !slices.Equal(names, []string{"Standard_D4s_v5", "Standard_D8s_v5"}) {
		t.Errorf("listed %v", names)
	}
	want := []assortment.Left{
		{"Standard_D16s_v5", "the subscription may not have it in any zone"}, {"Standard_D2s_v5", "it does not encrypt at the host"},
		{"Standard_DC4as_v5", "it is for confidential computing"},
	}
	if !slices.Equal(left, want) {
		t.Errorf("left out %v, want %v", left, want)
	}
	if q := memory(&types[0]); q != "15Gi" {
		t.Errorf("the memory that nodes were seen to have is %s", q)
	}
	if got := types[0].AttachLimits["disk.csi.azure.com"]; got != 8 {
		t.Errorf("a node takes %d disks", got)
	}
}

func memory(it *engine.InstanceType) string {
	q := it.Capacity["memory"]
	return q.String()
}

// A plan puts each label with several possible values of a size on the claim, and the API server refuses claims with this label.
func TestTheGenerationOfHyperVIsNotForPlans(t *testing.T) {
	s := size.Defaults("eastus")
	s.Images = []map[string][]string{{"kubernetes.io/arch": {"amd64"}, size.LabelHyperVGeneration: {"2"}}}
	both := figures("Standard_D4s_v5", func(f *size.Figures) { f.Generations = []string{"1", "2"} })
	gen1 := figures("Standard_D8s_v5", func(f *size.Figures) { f.Generations = []string{"1"} })
	types, left := assortment.List([]size.Figures{both, gen1}, &s, prices, nil)
	if len(types) != 1 || types[0].Name != both.Name || len(left) != 1 {
		t.Fatalf("listed %v, left out %v: the image is of generation 2", types, left)
	}
	if values, there := types[0].Labels[size.LabelHyperVGeneration]; there {
		t.Errorf("plans see generations %q", values)
	}
}
