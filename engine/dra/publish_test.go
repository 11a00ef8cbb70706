package dra_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
)

// What a driver publishes of a template is read as the template says, in however many slices it comes.
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

// Devices that will agree in what nobody knows before agree in it once they are published.
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
