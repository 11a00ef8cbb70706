package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"tenon.sh/engine/device"
)

// fileDevices is a pool of equal devices that a driver publishes on a machine. Pools of one driver have different names.
type fileDevices struct {
	Driver     string                     `json:"driver"`
	Pool       string                     `json:"pool,omitempty"`
	Count      int                        `json:"count"`
	Attributes map[string]string          `json:"attributes,omitempty"`
	Capacity   map[string]json.RawMessage `json:"capacity,omitempty"`
}

// defaultPool is the name of a pool without a name in the file.
const defaultPool = "devices"

// mostDevices is the largest number of devices in one ResourceSlice.
const mostDevices = 128

func claimable(list []fileDevices) (out []device.Template, err error) {
	for i := range list {
		t, err := list[i].template()
		if err != nil {
			return nil, fmt.Errorf("claimable[%d].%w", i, err)
		}
		if slices.ContainsFunc(out, func(o device.Template) bool { return o.Driver == t.Driver && o.Pool == t.Pool }) {
			return nil, fmt.Errorf("claimable[%d].pool: %s publishes another pool %s already", i, t.Driver, t.Pool)
		}
		out = append(out, t)
	}
	return out, nil
}

func (f *fileDevices) template() (device.Template, error) {
	out := device.Template{Driver: f.Driver, Pool: cmp.Or(f.Pool, defaultPool)}
	if problems := validation.IsDNS1123Subdomain(f.Driver); len(problems) > 0 {
		return out, fmt.Errorf("driver: %q is not the name of a driver: %s", f.Driver, problems[0])
	}
	if problems := validation.IsDNS1123Label(out.Pool); len(problems) > 0 {
		return out, fmt.Errorf("pool: %q is not the name of a pool: %s", f.Pool, problems[0])
	}
	if f.Count < 1 || f.Count > mostDevices {
		return out, fmt.Errorf("count: %d is not from 1 to %d", f.Count, mostDevices)
	}
	shape := device.Shape{Driver: f.Driver, Attributes: map[string]device.Value{}, Capacities: map[string]device.Capacity{}}
	for name, text := range f.Attributes {
		shape.Attributes[name] = device.Value{Kind: device.Text, Text: text}
	}
	capacities, err := quantities("capacity", f.Capacity)
	if err != nil {
		return out, err
	}
	for name, q := range capacities {
		shape.Capacities[string(name)] = device.Capacity{Amount: q.MilliValue()}
	}
	prefix, _, _ := strings.Cut(f.Driver, ".")
	for i := range f.Count {
		out.Devices = append(out.Devices, device.Expected{Name: prefix + "-" + strconv.Itoa(i), Shape: shape})
	}
	return out, nil
}

// newFileDevices is the reverse of template.
func newFileDevices(t *device.Template) (fileDevices, error) {
	f := fileDevices{Driver: t.Driver, Count: len(t.Devices), Attributes: map[string]string{}, Capacity: map[string]json.RawMessage{}}
	if len(t.Devices) == 0 {
		return f, errors.New("a pool has no devices")
	}
	if t.Pool != defaultPool {
		f.Pool = t.Pool
	}
	shape := &t.Devices[0].Shape
	for name, v := range shape.Attributes {
		f.Attributes[name] = v.Text
	}
	for _, name := range slices.Sorted(maps.Keys(shape.Capacities)) {
		f.Capacity[name] = json.RawMessage(strconv.Quote(resource.NewMilliQuantity(shape.Capacities[name].Amount, resource.BinarySI).String()))
	}
	if again, err := f.template(); err != nil || !reflect.DeepEqual(again, *t) {
		return f, fmt.Errorf("the format can hold equal devices with texts and quantities, and pool %s of driver %s has others, or counters", t.Pool, t.Driver)
	}
	return f, nil
}
