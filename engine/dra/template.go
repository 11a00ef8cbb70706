package dra

import "tenon.sh/engine/device"

// A Template is a pool of which a driver is expected to publish as much on a machine that is not there yet.
type Template struct {
	Driver, Pool string
	Devices      []Expected
}

// Expected is one device of a Template.
type Expected struct {
	Name  string
	Shape device.Shape
}

// Expect is the pool as the machine will have it.
func (m *Model) Expect(t Template) device.Pool {
	pool := device.Pool{Driver: t.Driver, Name: t.Pool}
	for i := range t.Devices {
		pool.Devices = append(pool.Devices, device.Device{Name: t.Devices[i].Name, Shape: m.number(t.Devices[i].Shape, "")})
	}
	return pool
}
