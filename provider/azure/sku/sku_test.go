package sku_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	clocktesting "k8s.io/utils/clock/testing"

	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/size"
	"tenon.sh/provider/azure/sku"
)

// figures reads the figures through Azure's SDK from a server that answers like Azure.
func figures(t *testing.T, edit func(*azuretest.Subscription)) map[string]size.Figures {
	t.Helper()
	now := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := azuretest.New(t, now)
	if edit != nil {
		edit(s)
	}
	c, err := cloud.New(cloud.Config{Subscription: "00000000-0000-0000-0000-000000000001", Location: azuretest.Location, Credential: &azfake.TokenCredential{}, Options: *s.Options(), Clock: now})
	if err != nil {
		t.Fatal(err)
	}
	skus, err := c.Sizes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, left := sku.Figures(skus, azuretest.Location)
	if len(left) > 0 {
		t.Errorf("left out: %v", left)
	}
	out := map[string]size.Figures{}
	for _, f := range list {
		out[f.Name] = f
	}
	return out
}

func TestSizesAreReadAsAzureSaysThem(t *testing.T) {
	t.Parallel()
	all := figures(t, nil)
	zones := []size.Zone{{Number: "1"}, {Number: "2"}, {Number: "3"}}
	for _, want := range []size.Figures{
		{
			Name: "Standard_D64s_v3", QuotaFamily: "standardDSv3Family", Architecture: "amd64", VCPUs: 64, MemoryMiB: 256 << 10, Generations: []string{"1", "2"}, AcceleratedNetworking: true, PremiumStorage: true,
			EncryptionAtHost: true, Spot: true, EphemeralOSDisk: true, Placements: []string{"CacheDisk", "ResourceDisk"}, CachedDiskBytes: 1717986918400, ResourceDiskMiB: 524288, Zones: zones,
		},
		{
			Name: "Standard_E16-4ads_v5", QuotaFamily: "standardEADSv5Family", Architecture: "amd64", VCPUs: 16, AvailableVCPUs: 4, MemoryMiB: 128 << 10, Generations: []string{"1", "2"}, AcceleratedNetworking: true,
			PremiumStorage: true, EncryptionAtHost: true, Spot: true, Zones: zones,
		},
		{
			Name: "Standard_D4pls_v6", QuotaFamily: "StandardDplsv6Family", Architecture: "arm64", VCPUs: 4, MemoryMiB: 8 << 10, Generations: []string{"2"}, AcceleratedNetworking: true, PremiumStorage: true,
			EncryptionAtHost: true, Spot: true, Zones: zones,
		},
		{
			Name: "Standard_NC24ads_A100_v4", QuotaFamily: "StandardNCADSA100v4Family", Architecture: "amd64", VCPUs: 24, MemoryMiB: 220 << 10, GPUs: 1, Generations: []string{"2"}, AcceleratedNetworking: true, PremiumStorage: true,
			EncryptionAtHost: true, Spot: true, EphemeralOSDisk: true, Placements: []string{"CacheDisk", "ResourceDisk"}, CachedDiskBytes: 274877906944, ResourceDiskMiB: 65536, NVMeDiskMiB: 915527,
			Zones: []size.Zone{{Number: "3"}},
		},
	} {
		if got := all[want.Name]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("read %+v\nwant %+v", got, want)
		}
	}
	if b2s := all["Standard_B2s"]; b2s.Spot || b2s.AcceleratedNetworking {
		t.Errorf("B2s is neither sold as spot nor has accelerated networking: %+v", b2s)
	}
}

func TestWhatASubscriptionMayNotHaveIsWrittenDown(t *testing.T) {
	t.Parallel()
	all := figures(t, func(s *azuretest.Subscription) {
		s.Restrict("Standard_D2s_v5", "*")
		s.Restrict("Standard_D4s_v5", "1", "3")
	})
	if !all["Standard_D2s_v5"].Restricted || all["Standard_D4s_v5"].Restricted || all["Standard_D8s_v5"].Restricted {
		t.Error("only D2s_v5 is restricted in the whole location")
	}
	d4 := all["Standard_D4s_v5"]
	if usable := d4.Usable(); len(usable) != 1 || usable[0].Number != "2" {
		t.Errorf("D4s_v5 can be had in %v, want zone 2 only", usable)
	}
}

func TestASizeThatCannotBeReadTakesOutItselfAlone(t *testing.T) {
	t.Parallel()
	machine := func(name string, capabilities ...string) *armcompute.ResourceSKU {
		s := &armcompute.ResourceSKU{ResourceType: new("virtualMachines"), Name: new(name)}
		for _, c := range capabilities {
			key, value, _ := strings.Cut(c, "=")
			s.Capabilities = append(s.Capabilities, &armcompute.ResourceSKUCapabilities{Name: new(key), Value: new(value)})
		}
		return s
	}
	ultra := machine("Standard_D2s_v5", "vCPUs=2", "MemoryGB=3.5", "SupportedEphemeralOSDiskPlacements=NvmeDisk | CacheDisk")
	ultra.LocationInfo = []*armcompute.ResourceSKULocationInfo{
		{Location: new("westus"), Zones: []*string{new("9")}},
		{Location: new("EastUS"), Zones: []*string{new("2"), new("1")}, ZoneDetails: []*armcompute.ResourceSKUZoneDetails{
			{Name: []*string{new("2")}, Capabilities: []*armcompute.ResourceSKUCapabilities{{Name: new("UltraSSDAvailable"), Value: new("True")}}},
		}},
	}
	list, left := sku.Figures([]*armcompute.ResourceSKU{
		nil, {ResourceType: new("disks"), Name: new("Premium_LRS")}, ultra,
		machine("Standard_Broken", "vCPUs=two", "MemoryGB=8"), machine("Standard_Half", "vCPUs=2.5", "MemoryGB=8"), machine("Standard_Silent", "vCPUs=2"), machine("Standard_Endless", "vCPUs=2", "MemoryGB=+Inf"),
	}, "eastus")
	if len(list) != 1 || len(left) != 4 || !strings.Contains(left[0], `VM size Standard_Broken: capability vCPUs is "two"`) {
		t.Fatalf("read %+v, left out %q", list, left)
	}
	f := list[0]
	if want := []size.Zone{{Number: "1"}, {Number: "2", UltraSSD: true}}; f.MemoryMiB != 3584 || len(f.Placements) != 2 || !reflect.DeepEqual(f.Zones, want) {
		t.Errorf("read %+v", f)
	}
}
