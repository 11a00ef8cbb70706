package dra_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
)

// ofNode is a slice of the node with a device for each of the lists of attributes.
func ofNode(node string, parts int64, attributes ...map[resourcev1.QualifiedName]string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: parts}}
	for i, of := range attributes {
		d := resourcev1.Device{Name: string(rune('a' + i)), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}}
		for name, value := range of {
			d.Attributes[name] = resourcev1.DeviceAttribute{StringValue: &value}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

func nodeNamed(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// A machine to come has what nodes of its kind agree in. Of the rest it is known which of its devices will agree.
func TestWhatTellsDevicesApartIsNotLearned(t *testing.T) {
	t.Parallel()
	type attributes = map[resourcev1.QualifiedName]string
	one := ofNode("one", 1, attributes{"model": "m", "uuid": "1", "numa": "0", "driver": "7"}, attributes{"model": "m", "uuid": "2", "numa": "0", "driver": "7"}, attributes{"model": "m", "uuid": "3", "numa": "1", "driver": "7"})
	two := ofNode("two", 1, attributes{"model": "m", "uuid": "4", "numa": "0", "driver": "8"}, attributes{"model": "m", "uuid": "5", "numa": "0", "driver": "8"}, attributes{"model": "m", "uuid": "6", "numa": "1", "driver": "8"})
	alone, part := ofNode("alone", 1, attributes{"pci/pciBusID": "0:1"}), ofNode("part", 2, attributes{"model": "m"})
	p := dra.Publish([]*resourcev1.ResourceSlice{one, two, alone, part})
	learned := dra.Learned{}
	learned.Learn("t", p.Templates(nodeNamed("one")))
	text := func(i int, name string) device.Value { return learned["t"][0].Devices[i].Shape.Attributes[name] }
	alike := func(group string) device.Value { return device.Value{Kind: device.Alike, Text: group} }
	if got := text(1, "driver"); got != (device.Value{Kind: device.Text, Text: "7"}) {
		t.Errorf("of one node the driver's version is %+v", got)
	}
	learned.Learn("t", p.Templates(nodeNamed("two")))
	for i, numa := range []string{"0", "0", "1"} {
		if text(i, "model") != (device.Value{Kind: device.Text, Text: "m"}) || text(i, "uuid").Kind != device.Alike || text(i, "numa") != alike(numa) || text(i, "driver") != alike("0") {
			t.Errorf("device %d: %+v", i, learned["t"][0].Devices[i].Shape.Attributes)
		}
	}
	if text(0, "uuid") == text(1, "uuid") {
		t.Error("two devices are expected to have one uuid")
	}
	if got := p.Templates(nodeNamed("alone")); len(got) != 1 || got[0].Devices[0].Shape.Attributes["pci/pciBusID"].Kind != device.Alike {
		t.Errorf("of a node with one device: %+v", got)
	}
	if got := p.Templates(nodeNamed("part")); got != nil {
		t.Errorf("of a part of a pool: %+v", got)
	}
	learned.Learn("t", p.Templates(nodeNamed("alone"))) // has lost two
	if n := len(learned["t"][0].Devices); n != 3 {
		t.Errorf("%d devices are expected", n)
	}
}
