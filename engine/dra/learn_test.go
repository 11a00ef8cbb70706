package dra_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
)

// ofNode returns a slice of the node with a device for each of the lists of attributes.
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

// A future machine has the attributes that all nodes of its kind share. For other attributes, the groups of devices with equal values are known.
func TestWhatTellsDevicesApartIsNotLearned(t *testing.T) {
	t.Parallel()
	type attributes = map[resourcev1.QualifiedName]string
	one := ofNode("one", 1, attributes{"model": "m", "uuid": "1", "numa": "0", "pcieRoot": "a", "driver": "7"}, attributes{"model": "m", "uuid": "2", "numa": "0", "pcieRoot": "a", "driver": "7"}, attributes{"model": "m", "uuid": "3", "numa": "1", "pcieRoot": "b", "driver": "7"})
	two := ofNode("two", 1, attributes{"model": "m", "uuid": "4", "numa": "0", "pcieRoot": "c", "driver": "8"}, attributes{"model": "m", "uuid": "5", "numa": "0", "pcieRoot": "c", "driver": "8"}, attributes{"model": "m", "uuid": "6", "numa": "1", "pcieRoot": "d", "driver": "8"})
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
	for i, group := range []string{"0", "0", "1"} {
		known := func(value string) device.Value { return device.Value{Kind: device.Text, Text: value} }
		if text(i, "model") != known("m") || text(i, "numa") != known(group) || text(i, "uuid").Kind != device.Alike || text(i, "pcieRoot") != alike(group) || text(i, "driver") != alike("0") {
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

// Devices of two drivers that share a root of the bus are expected to share one, whichever driver comes first; flags and devices with taints.
func TestGroupsOfDevicesAreThoseOfTheNode(t *testing.T) {
	t.Parallel()
	type attributes = map[resourcev1.QualifiedName]string
	const root = "resource.kubernetes.io/pcieRoot"
	gpus := ofNode("n", 1, attributes{root: "b"}, attributes{root: "a"})
	nics := ofNode("n", 1, attributes{root: "a"}, attributes{root: "b"}, attributes{root: "b"})
	nics.Name, nics.Spec.Driver = "nics", "nic.example.com"
	for i := range nics.Spec.Devices {
		rdma := i == 0
		nics.Spec.Devices[i].Attributes["rdma"] = resourcev1.DeviceAttribute{BoolValue: &rdma}
	}
	kept := ofNode("n", 1, attributes{"model": "m"})
	kept.Name, kept.Spec.Driver = "kept", "kept.example.com"
	kept.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "reserved", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	got := dra.Publish([]*resourcev1.ResourceSlice{gpus, nics, kept}).Templates(nodeNamed("n"))
	if len(got) != 2 || got[0].Driver != "gpu.example.com" || got[1].Driver != "nic.example.com" {
		t.Fatalf("%+v", got)
	}
	of := func(template, i int) device.Value { return got[template].Devices[i].Shape.Attributes[root] }
	if of(0, 0) == of(0, 1) || of(0, 0) != of(1, 1) || of(0, 0) != of(1, 2) || of(0, 1) != of(1, 0) || of(0, 0).Kind != device.Alike {
		t.Errorf("roots are %v %v and %v %v %v", of(0, 0), of(0, 1), of(1, 0), of(1, 1), of(1, 2))
	}
	for i := range nics.Spec.Devices {
		if got := got[1].Devices[i].Shape.Attributes["rdma"]; got.Kind != device.Truth || (got.Text == "true") != (i == 0) {
			t.Errorf("device %d: rdma is %+v", i, got)
		}
	}
}

// partitioned returns a pool of a node with one GPU and its two halves as devices: one slice with their shared counters, and one with the
// devices.
func partitioned(node, pool string, generation int64) []*resourcev1.ResourceSlice {
	type attributes = map[resourcev1.QualifiedName]string
	devices := ofNode(node, 2, attributes{"type": "gpu"}, attributes{"type": "half"}, attributes{"type": "half"})
	devices.Name += pool
	devices.Spec.Pool.Name, devices.Spec.Pool.Generation = node+pool, generation
	memory := func(amount string) map[string]resourcev1.Counter {
		return map[string]resourcev1.Counter{"memory": {Value: resource.MustParse(amount)}}
	}
	for i, amount := range []string{"80Gi", "40Gi", "40Gi"} {
		devices.Spec.Devices[i].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "gpu", Counters: memory(amount)}}
	}
	counters := devices.DeepCopy()
	counters.Name += "-counters"
	counters.Spec.Devices = nil
	counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "gpu", Counters: memory("80Gi")}}
	return []*resourcev1.ResourceSlice{devices, counters}
}

// All pools of a driver are learned, with their shared counters; none is learned while one is incomplete.
func TestAllPoolsOfADriverAreLearned(t *testing.T) {
	t.Parallel()
	a, b := partitioned("n", "a", 1), partitioned("n", "b", 1)
	older, newer := partitioned("n", "b", 0)[:1], partitioned("n", "b", 2)[:1]
	older[0].Name, newer[0].Name = "older", "newer"
	for what, c := range map[string]struct {
		list  []*resourcev1.ResourceSlice
		pools []string
	}{
		"one":                      {a, []string{"gpu.example.com"}},
		"two":                      {slices.Concat(a, b), []string{"gpu.example.com", "gpu.example.com/2"}},
		"two, and what is left":    {slices.Concat(a, b, older), []string{"gpu.example.com", "gpu.example.com/2"}},
		"of one the counters lack": {slices.Concat(a, b[:1]), nil},
		"of one the devices lack":  {slices.Concat(a, b[1:]), nil},
		"one is published anew":    {slices.Concat(a, b, newer), nil},
		"another node's":           {slices.Concat(a, partitioned("other", "b", 1)), []string{"gpu.example.com"}},
	} {
		got := dra.Publish(c.list).Templates(nodeNamed("n"))
		var pools []string
		for _, p := range got {
			pools = append(pools, p.Pool)
			if len(p.Devices) != 3 || !slices.Equal(p.Counters, []device.Counter{{Set: "gpu", Name: "memory", Amount: 80 << 30 * 1000}}) ||
				!slices.Equal(p.Devices[1].Consumes, []device.Counter{{Set: "gpu", Name: "memory", Amount: 40 << 30 * 1000}}) {
				t.Errorf("%s: pool %+v", what, p)
			}
		}
		if !slices.Equal(pools, c.pools) {
			t.Errorf("%s: learned are %v", what, pools)
		}
	}
	learned := dra.Learned{}
	for _, list := range [][]*resourcev1.ResourceSlice{slices.Concat(a, b), a} { // the second node has lost a pool
		learned.Learn("t", dra.Publish(list).Templates(nodeNamed("n")))
	}
	if len(learned["t"]) != 2 {
		t.Errorf("known are %d pools", len(learned["t"]))
	}
}

// Earlier knowledge of more devices than a single node has stays, but not against several nodes; attributes that were found to differ stay
// groups.
func TestWhatIsRememberedOfDevices(t *testing.T) {
	t.Parallel()
	type attributes = map[resourcev1.QualifiedName]string
	learn := func(slice *resourcev1.ResourceSlice) dra.Learned {
		l := dra.Learned{}
		l.Learn("t", dra.Publish([]*resourcev1.ResourceSlice{slice}).Templates(nodeNamed("n")))
		return l
	}
	for sure, want := range map[bool]int{false: 3, true: 2} {
		l := learn(ofNode("n", 1, attributes{"model": "m"}, attributes{"model": "m"}))
		l.Remember(learn(ofNode("n", 1, attributes{"model": "m"}, attributes{"model": "m"}, attributes{"model": "m"})), func(string) bool { return sure })
		if n := len(l["t"][0].Devices); n != want {
			t.Errorf("of several nodes %v: %d devices are expected", sure, n)
		}
	}
	l := learn(ofNode("n", 1, attributes{"driver": "2"}, attributes{"driver": "2"}))
	l.Remember(learn(ofNode("n", 1, attributes{"driver": "1"}, attributes{"driver": "1"})), func(string) bool { return true })
	if got := l["t"][0].Devices[1].Shape.Attributes["driver"]; got != (device.Value{Kind: device.Alike, Text: "0"}) {
		t.Errorf("a value that has changed is %+v", got)
	}
}
