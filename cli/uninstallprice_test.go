package cli

import (
	"strings"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/scenario"
)

// The built-in prices are those of one region. The price of a machine in another region is found by its type and capacity type, plus the
// overhead price of each node.
func TestWhatAMachineOfAnotherRegionCosts(t *testing.T) {
	t.Parallel()
	f, err := scenario.Parse(strings.Join([]string{"pool p", "type small cpu=2 mem=8Gi zones=a price=0.10 spot=0.03", "type gift cpu=2 mem=8Gi zones=a price=0"}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	f.Snapshot.NodeOverheadPrice = 0.02
	for _, c := range []struct {
		kind, capacity string
		want           float64
	}{
		{"small", "on-demand", 0.12}, {"small", "spot", 0.05}, {"small", "reserved", 0}, {"other", "on-demand", 0}, {"gift", "on-demand", 0},
	} {
		got := priceElsewhere(f.Snapshot, engine.OfferingID{InstanceType: c.kind, CapacityType: c.capacity, Zone: "elsewhere-1a"})
		if diff := got - c.want; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("a %s machine of type %s costs %v USD per hour, want %v", c.capacity, c.kind, got, c.want)
		}
	}
}
