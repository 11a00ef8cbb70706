package dra_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
)

// A template that a driver publishes is read back unchanged, from any number of slices.
func TestATemplateIsPublishedAsItIsExpected(t *testing.T) {
	t.Parallel()
	pool := device.Template{Driver: "gpu.example.com", Pool: "gpus"}
	for i := range 5 {
		pool.Devices = append(pool.Devices, device.Expected{Name: fmt.Sprintf("gpu-%d", i), Shape: device.Shape{Driver: pool.Driver, Shared: i == 0,
			Attributes: map[string]device.Value{"model": {Kind: device.Text, Text: "m"}, "cores": {Kind: device.Number, Text: fmt.Sprint(i)},
				"ecc": {Kind: device.Truth, Text: "true"}, "driver": {Kind: device.Version, Text: "1.2.3"}},
			Capacities: map[string]device.Capacity{"memory": {Amount: 24 << 30 * 1000, Policy: &device.Policy{Default: new(int64(1000)), Values: []int64{1000, 2000}}},
				"shares": {Amount: 4000, Policy: &device.Policy{Default: new(int64(1000)), Range: &device.Range{Min: new(int64(1000)), Max: new(int64(4000)), Step: new(int64(1000))}}}}}})
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: thisNode, UID: "uid"}}
	for parts := 1; parts <= 5; parts++ {
		var published []*resourcev1.ResourceSlice
		for part := range parts {
			if part > 0 && len(dra.Publish(published).Drivers(node)) > 0 {
				t.Errorf("%d of %d slices are a whole pool", part, parts)
			}
			published = append(published, dra.PublishedSlice(node, &pool, part, parts))
		}
		m := dra.NewModel()
		pools := dra.Publish(published).Pools(m, thisNode, nil)
		shapes := m.Facts(func([]string, *device.Shape) []device.Answer { return nil }).Shapes
		if len(pools) != 1 || pools[0].Incomplete || len(pools[0].Devices) != 5 {
			t.Fatalf("%d parts: %+v", parts, pools)
		}
		for i, d := range pools[0].Devices {
			if want := pool.Devices[i]; d.Name != want.Name || shapes[d.Shape].Key() != want.Shape.Key() {
				t.Errorf("%d parts: device %s is %s, want %s", parts, d.Name, shapes[d.Shape].Key(), want.Shape.Key())
			}
		}
	}
}

// All pools of a driver are published with their shared counters, in as many slices as the API server requires.
func TestPoolsOfOneDriverArePublishedWithTheirCounters(t *testing.T) {
	t.Parallel()
	const driver = "gpu.example.com"
	pools := []device.Template{{Driver: driver}, {Driver: driver, Pool: driver + "/2"}, {Driver: driver, Pool: "many"}}
	for i := range pools {
		for n := range []int{2, 70, 130}[i] {
			pools[i].Devices = append(pools[i].Devices, device.Expected{Name: fmt.Sprintf("gpu-%d", n), Shape: device.Shape{Driver: driver}})
		}
	}
	parted := &pools[1]
	for i := range 9 {
		set := fmt.Sprintf("gpu-%d", i)
		parted.Counters = append(parted.Counters, device.Counter{Set: set, Name: "memory", Amount: 80_000}, device.Counter{Set: set, Name: "slices", Amount: 7_000})
		parted.Devices[i].Consumes = []device.Counter{{Set: set, Name: "memory", Amount: 40_000}, {Set: set, Name: "slices", Amount: 3_000}}
	}
	node, names := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: thisNode, UID: "uid"}}, map[string]bool{}
	var published []*resourcev1.ResourceSlice
	for i := range pools {
		parts := dra.SlicesOf(&pools[i], 1)
		if want := []int{1, 4, 2}[i]; parts != want {
			t.Errorf("pool %d comes in %d slices, want %d", i, parts, want)
		}
		for part := range parts {
			s := dra.PublishedSlice(node, &pools[i], part, parts)
			if len(s.Spec.SharedCounters) > 8 || len(s.Spec.SharedCounters) > 0 && len(s.Spec.Devices) > 0 || len(s.Spec.Devices) > 128 || i == 1 && len(s.Spec.Devices) > 64 || names[s.Name] {
				t.Errorf("the API server does not take slice %s with %d devices and %d counter sets", s.Name, len(s.Spec.Devices), len(s.Spec.SharedCounters))
			}
			names[s.Name] = true
			published = append(published, s)
		}
	}
	read := dra.Publish(published).Pools(dra.NewModel(), thisNode, nil)
	if n, devices := dra.Publish(published).Devices(node, driver); len(read) != 3 || n != 3 || devices != 202 {
		t.Fatalf("%d pools are read, and %d of the node's own with %d devices, want 3 with 202", len(read), n, devices)
	}
	for i, p := range read {
		want := &pools[i]
		if p.Incomplete || p.Invalid != "" || !slices.Equal(p.Counters, want.Counters) || !slices.EqualFunc(p.Devices, want.Devices, func(d device.Device, e device.Expected) bool {
			return d.Name == e.Name && slices.Equal(d.Consumes, e.Consumes)
		}) {
			t.Errorf("pool %s is read otherwise than it was published: %+v", p.Name, p)
		}
	}
}

// Devices of one group have one value of the unknown attribute once they are published.
func TestDevicesThatAreAlikeArePublishedSo(t *testing.T) {
	t.Parallel()
	var list []device.Expected
	for _, group := range []string{"a", "a", "b"} {
		list = append(list, device.Expected{Shape: device.Shape{Attributes: map[string]device.Value{"root": {Kind: device.Alike, Text: group}}}})
	}
	var roots []string
	for _, d := range dra.PublishedDevices(list) {
		if root := d.Attributes["root"].StringValue; root != nil {
			roots = append(roots, *root)
		}
	}
	if len(roots) != 3 || roots[0] != roots[1] || roots[1] == roots[2] {
		t.Errorf("the roots are %v", roots)
	}
}
