package cli

import (
	"slices"
	"testing"

	"tenon.sh/provider/catalog"
	"tenon.sh/provider/simulated"
)

// Drivers of devices run on simulated machines of EC2 only if the gates or a fault require it.
func TestWhichDriversRunOnSimulatedMachinesOfEC2(t *testing.T) {
	t.Parallel()
	slicesOf := func(driver string) simulated.Fault {
		return simulated.Fault{What: simulated.FaultSlices, Driver: driver, Factor: 1}
	}
	for name, c := range map[string]struct {
		gates   map[string]bool
		faults  []simulated.Fault
		catalog string
		drivers []string
	}{
		"nothing is said":       {catalog: catalog.NameAWS},
		"another fault":         {catalog: catalog.NameAWS, faults: []simulated.Fault{{What: simulated.FaultLess, Resource: "memory"}}},
		"a gate":                {catalog: catalog.NameAWS, gates: map[string]bool{"DRANVIDIAGPU": true, "DRAEFA": false}, drivers: []string{catalog.NVIDIADriver}},
		"both gates":            {catalog: catalog.NameAWS, gates: map[string]bool{"DRANVIDIAGPU": true, "DRAEFA": true}, drivers: []string{catalog.EFADriver, catalog.NVIDIADriver}},
		"a fault":               {catalog: catalog.NameAWS, faults: []simulated.Fault{slicesOf(catalog.EFADriver)}, drivers: []string{catalog.EFADriver}},
		"a gate and a fault":    {catalog: catalog.NameAWS, gates: map[string]bool{"DRANVIDIAGPU": true}, faults: []simulated.Fault{slicesOf("")}, drivers: []string{catalog.EFADriver, catalog.NVIDIADriver}},
		"with Azure's machines": {catalog: catalog.NameAzure, faults: []simulated.Fault{slicesOf("")}},
	} {
		simulates := &autoscaler{opt: ControllerOptions{CloudProvider: cloudKWOK, Catalog: c.catalog}}
		simulates.opt.AWSFeatureGates = c.gates
		types, err := simulates.sells(c.faults)
		if err != nil {
			t.Fatal(err)
		}
		var drivers []string
		for i := range types {
			for _, pool := range types[i].Claimable {
				if c.catalog == catalog.NameAzure || types[i].Name == "p4d.24xlarge" {
					drivers = append(drivers, pool.Driver)
				}
			}
		}
		if !slices.Equal(drivers, c.drivers) {
			t.Errorf("%s: on a p4d.24xlarge run %v, want %v", name, drivers, c.drivers)
		}
	}
}
