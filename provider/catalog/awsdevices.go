package catalog

import (
	"cmp"
	"slices"

	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/provider/aws/devicetable"
)

// The drivers whose devices on machines of EC2 are known.
const (
	NVIDIADriver = devicetable.GPUDriver
	EFADriver    = devicetable.EFADriver
)

// ExpectDevices adds to types of EC2 the devices that a driver publishes on them for claims, as the AWS provider does with its feature gates.
// If driver is "", it adds those of all drivers that the provider knows. Types that already have devices of a driver are left alone.
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
