package catalog

import (
	"cmp"
	"slices"

	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/provider/aws/devicetable"
)

// Drivers of which it is known what they publish on machines of EC2.
const (
	NVIDIADriver = devicetable.GPUDriver
	EFADriver    = devicetable.EFADriver
)

// ExpectDevices says of types of EC2 for which nothing is said what the driver publishes on them for claims, as the AWS provider does with its
// feature gates; without a driver's name, what each of the drivers does that the provider knows.
func ExpectDevices(types []engine.InstanceType, driver string) {
	figures, _ := BuiltIn()
	of := map[string][]device.Template{}
	for i := range figures {
		of[figures[i].Name] = devicetable.Pools(&figures[i], devicetable.Sharing{})
	}
	for i := range types {
		t := &types[i]
		for _, pool := range of[t.Name] {
			said := slices.ContainsFunc(t.Claimable, func(o device.Template) bool { return o.Driver == pool.Driver })
			if !said && (driver == "" || driver == pool.Driver) {
				t.Claimable = append(slices.Clip(t.Claimable), pool)
			}
		}
		slices.SortStableFunc(t.Claimable, func(a, b device.Template) int { return cmp.Compare(a.Driver, b.Driver) })
	}
}
