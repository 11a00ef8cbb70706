package dra

import "tenon.sh/engine/device"

// Expect returns the pool that the machine will have.
func (m *Model) Expect(t *device.Template) device.Pool {
	pool := device.Pool{Driver: t.Driver, Name: t.Pool, Counters: t.Counters}
	for i := range t.Devices {
		pool.Devices = append(pool.Devices, device.Device{Name: t.Devices[i].Name, Shape: m.number(t.Devices[i].Shape, ""), Consumes: t.Devices[i].Consumes})
	}
	return pool
}
