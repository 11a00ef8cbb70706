package dra

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/device"
)

// PublishedDevices returns expected devices as a driver publishes them. If only groups of equal values are known, the value is the group's name.
// Unknown values are left out.
func PublishedDevices(list []device.Expected) []resourcev1.Device {
	var out []resourcev1.Device
	for i := range list {
		shape := &list[i].Shape
		d := resourcev1.Device{Name: list[i].Name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}, Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{}}
		if shape.Shared {
			d.AllowMultipleAllocations = new(true)
		}
		for _, name := range slices.Sorted(maps.Keys(shape.Attributes)) {
			if a, known := attributeOf(shape.Attributes[name]); known {
				d.Attributes[resourcev1.QualifiedName(name)] = a
			}
		}
		for name, c := range shape.Capacities {
			d.Capacity[resourcev1.QualifiedName(name)] = publishedCapacity(c)
		}
		for _, set := range counterSets(list[i].Consumes) {
			d.ConsumesCounters = append(d.ConsumesCounters, resourcev1.DeviceCounterConsumption{CounterSet: set.Name, Counters: set.Counters})
		}
		out = append(out, d)
	}
	return out
}

// attributeOf is the reverse of valueOf.
func attributeOf(v device.Value) (a resourcev1.DeviceAttribute, known bool) {
	switch v.Kind {
	case device.Text, device.Alike:
		a.StringValue = &v.Text
	case device.Version:
		a.VersionValue = &v.Text
	case device.Truth:
		a.BoolValue = new(v.Text == "true")
	case device.Number:
		n, err := strconv.ParseInt(v.Text, 10, 64)
		if err != nil {
			return a, false
		}
		a.IntValue = &n
	default:
		return a, false
	}
	return a, true
}

// publishedCapacity is the reverse of capacityOf.
func publishedCapacity(c device.Capacity) resourcev1.DeviceCapacity {
	quantity := func(n *int64) *resource.Quantity {
		if n == nil {
			return nil
		}
		return resource.NewMilliQuantity(*n, resource.BinarySI)
	}
	out := resourcev1.DeviceCapacity{Value: *quantity(&c.Amount)}
	p := c.Policy
	if p == nil {
		return out
	}
	out.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: quantity(p.Default)}
	for _, n := range p.Values {
		out.RequestPolicy.ValidValues = append(out.RequestPolicy.ValidValues, *quantity(&n))
	}
	if r := p.Range; r != nil {
		out.RequestPolicy.ValidRange = &resourcev1.CapacityRequestPolicyRange{Min: quantity(r.Min), Max: quantity(r.Max), Step: quantity(r.Step)}
	}
	return out
}

// counterSets returns the counters by set, in order.
func counterSets(counters []device.Counter) (out []resourcev1.CounterSet) {
	for _, c := range counters {
		at := slices.IndexFunc(out, func(s resourcev1.CounterSet) bool { return s.Name == c.Set })
		if at < 0 {
			at = len(out)
			out = append(out, resourcev1.CounterSet{Name: c.Set, Counters: map[string]resourcev1.Counter{}})
		}
		out[at].Counters[c.Name] = resourcev1.Counter{Value: *resource.NewMilliQuantity(c.Amount, resource.BinarySI)}
	}
	return out
}

// SlicesOf returns the number of slices in which a driver publishes the pool if it wants `parts` slices for the devices. It needs more if a
// slice cannot hold so many devices, and further ones for counters.
func SlicesOf(pool *device.Template, parts int) int {
	most := resourcev1.ResourceSliceMaxDevices
	if len(pool.Counters) > 0 {
		most = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	return max(1, parts, divided(len(pool.Devices), most)) + slicesOfCounters(pool)
}

func slicesOfCounters(pool *device.Template) int {
	return divided(len(counterSets(pool.Counters)), resourcev1.ResourceSliceMaxCounterSets)
}

// divided returns n/by, rounded up.
func divided(n, by int) int { return (n + by - 1) / by }

// PublishedSlice returns slice number part, from 0, of the parts (SlicesOf) in which a driver publishes the pool for the node: slices with
// counters come first. The pool's name is the node's name, followed by the pool's own name if it has one. A slice goes with its node, and a new
// node of the same name has other slices.
func PublishedSlice(node *corev1.Node, pool *device.Template, part, parts int) *resourcev1.ResourceSlice {
	name, poolName := node.Name+"-"+pool.Driver, node.Name
	if uid := string(node.UID); uid != "" {
		name += "-" + uid[:min(8, len(uid))]
	}
	switch number := strconv.Itoa(part); {
	case pool.Pool != "":
		name += "." + number + "." + strings.ReplaceAll(pool.Pool, "/", ".")
		poolName += "/" + pool.Pool
	case part > 0:
		name += "-" + number
	}
	out := &resourcev1.ResourceSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"},
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true)}}},
		Spec: resourcev1.ResourceSliceSpec{Driver: pool.Driver, NodeName: new(node.Name),
			Pool: resourcev1.ResourcePool{Name: poolName, Generation: 1, ResourceSliceCount: int64(parts)}},
	}
	counting := slicesOfCounters(pool)
	if part < counting {
		sets := counterSets(pool.Counters)
		out.Spec.SharedCounters = sets[len(sets)*part/counting : len(sets)*(part+1)/counting]
		return out
	}
	part, parts = part-counting, parts-counting
	out.Spec.Devices = PublishedDevices(pool.Devices[len(pool.Devices)*part/parts : len(pool.Devices)*(part+1)/parts])
	return out
}
