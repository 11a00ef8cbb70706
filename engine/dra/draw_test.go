package dra_test

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A drawing draws small clusters in which claims compete for few devices.
type drawing struct {
	*rand.Rand
	drivers []string
	// The features of this cluster.
	counters, shares, taints, admin, distinct, errors, scattered bool
	// lenient says that a claim has distinctAttribute for a request of several devices: kube-scheduler forgets values of such requests.
	lenient bool
}

const thisNode = "node-1"

func newDrawing(seed uint64) *drawing {
	d := &drawing{Rand: rand.New(rand.NewPCG(seed, 27))}
	d.drivers = []string{"gpu.example.com", "nic.example.com"}[:1+d.IntN(2)]
	for _, has := range []*bool{&d.counters, &d.shares, &d.taints, &d.admin, &d.distinct, &d.errors, &d.scattered} {
		*has = d.IntN(3) == 0
	}
	return d
}

func (d *drawing) oneIn(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d *drawing, from ...T) T { return from[d.IntN(len(from))] }

// node draws the node on which a pod is tried.
func (d *drawing) node() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pick(d, thisNode, thisNode, thisNode, "node-2"), Labels: map[string]string{"zone": pick(d, "a", "b")}}}
}

func (d *drawing) zoneSelector() *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "zone", Operator: pick(d, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{pick(d, "a", "b", "c")}}}}}}
}

func (d *drawing) slices() []*resourcev1.ResourceSlice {
	var out []*resourcev1.ResourceSlice
	for i, driver := range d.drivers {
		for p := range 1 + d.IntN(2) {
			// Names differ, because the library treats pools with equal names as one, even of different drivers.
			out = append(out, d.pool(driver, fmt.Sprintf("pool-%d-%d", (i+p)%2, i))...)
		}
	}
	d.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// pool draws the slices of one pool, most of them for this node.
func (d *drawing) pool(driver, name string) []*resourcev1.ResourceSlice {
	parts := 1 + d.IntN(2)
	generation := int64(d.IntN(2))
	count := parts
	var out []*resourcev1.ResourceSlice
	slice := func(i int) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%d", driver, name, i)},
			Spec: resourcev1.ResourceSliceSpec{Driver: driver, Pool: resourcev1.ResourcePool{Name: name, Generation: generation}}}
	}
	if d.counters {
		s := slice(9)
		s.Spec.NodeName = new(thisNode)
		s.Spec.SharedCounters = []resourcev1.CounterSet{d.counterSet("set-0"), d.counterSet("set-1")}
		if d.oneIn(40) {
			s.Spec.SharedCounters[1].Name = "set-0"
		}
		out = append(out, s)
		count++
	}
	for i := range parts {
		s := slice(i)
		d.reach(&s.Spec)
		for n := range 1 + d.IntN(5) {
			device := d.device(driver, fmt.Sprintf("dev-%d-%d", i, n))
			if d.oneIn(60) {
				device.Name = "dev-0-0"
			}
			if s.Spec.PerDeviceNodeSelection != nil {
				d.reachDevice(&device)
			}
			s.Spec.Devices = append(s.Spec.Devices, device)
		}
		out = append(out, s)
	}
	if d.oneIn(25) {
		count++
	}
	for _, s := range out {
		s.Spec.Pool.ResourceSliceCount = int64(count)
	}
	if d.oneIn(10) { // a slice of an older or a newer generation
		s := slice(8)
		d.reach(&s.Spec)
		s.Spec.Pool.Generation += pick[int64](d, -1, 1, 1)
		s.Spec.Pool.ResourceSliceCount = 1
		s.Spec.Devices = []resourcev1.Device{d.device(driver, "dev-8")}
		s.Spec.Devices[0].NodeName = new(thisNode)
		s.Spec.Devices[0].ConsumesCounters = nil
		if s.Spec.PerDeviceNodeSelection == nil {
			s.Spec.Devices[0].NodeName = nil
		}
		out = append(out, s)
	}
	return out
}

func (d *drawing) reach(s *resourcev1.ResourceSliceSpec) {
	if !d.scattered {
		s.NodeName = new(thisNode)
		return
	}
	switch d.IntN(6) {
	case 0, 1:
		s.NodeName = new(thisNode)
	case 2:
		s.NodeName = new("node-2")
	case 3:
		s.AllNodes = new(true)
	case 4:
		s.NodeSelector = d.zoneSelector()
	case 5:
		s.PerDeviceNodeSelection = new(true)
	}
}

func (d *drawing) reachDevice(out *resourcev1.Device) {
	switch d.IntN(4) {
	case 0:
		out.NodeName = new(thisNode)
	case 1:
		out.NodeName = new("node-2")
	case 2:
		out.AllNodes = new(true)
	case 3:
		out.NodeSelector = d.zoneSelector()
	}
}

func (d *drawing) counterSet(name string) resourcev1.CounterSet {
	return resourcev1.CounterSet{Name: name, Counters: map[string]resourcev1.Counter{
		"memory": {Value: *resource.NewQuantity(int64(1+d.IntN(6)), resource.DecimalSI)},
		"slices": {Value: *resource.NewQuantity(int64(1+d.IntN(6)), resource.DecimalSI)}}}
}

func (d *drawing) device(driver, name string) resourcev1.Device {
	out := resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}, Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{}}
	put := func(name string, a resourcev1.DeviceAttribute) {
		if !d.errors || !d.oneIn(8) {
			out.Attributes[resourcev1.QualifiedName(name)] = a
		}
	}
	put("model", resourcev1.DeviceAttribute{StringValue: new(pick(d, "a", "b"))})
	put("size", resourcev1.DeviceAttribute{IntValue: new(int64(d.IntN(3)))})
	put("version", resourcev1.DeviceAttribute{VersionValue: new(pick(d, "1.0.0", "2.1.0"))})
	put("root.example.com/pcie", resourcev1.DeviceAttribute{StringValue: new(pick(d, "r0", "r1"))})
	put(driver+"/fast", resourcev1.DeviceAttribute{BoolValue: new(d.oneIn(2))})
	out.Capacity["memory"] = resourcev1.DeviceCapacity{Value: resource.MustParse(pick(d, "10Gi", "24Gi", "2500m"))}
	if d.shares {
		d.share(&out)
	}
	if d.counters && !d.oneIn(4) {
		out.ConsumesCounters = append(out.ConsumesCounters, resourcev1.DeviceCounterConsumption{CounterSet: pick(d, "set-0", "set-1"),
			Counters: map[string]resourcev1.Counter{pick(d, "memory", "slices"): {Value: *resource.NewQuantity(int64(1+d.IntN(3)), resource.DecimalSI)}}})
		if d.oneIn(60) {
			out.ConsumesCounters[0].CounterSet = "set-2"
		}
	}
	if d.taints && d.oneIn(2) {
		out.Taints = append(out.Taints, resourcev1.DeviceTaint{Key: pick(d, "broken", "slow"), Value: pick(d, "", "very"),
			Effect: pick(d, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNone)})
	}
	if d.oneIn(15) {
		out.BindingConditions, out.BindingFailureConditions = []string{"example.com/attached"}, []string{"example.com/failed"}
	}
	return out
}

// share lets several claims have parts of the device, in one of the ways that drivers publish.
func (d *drawing) share(out *resourcev1.Device) {
	if !d.oneIn(4) {
		out.AllowMultipleAllocations = new(true)
	}
	memory := out.Capacity["memory"]
	switch d.IntN(4) {
	case 0:
		memory.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: new(memory.Value.DeepCopy()),
			ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: new(resource.MustParse("1")), Step: new(resource.MustParse(pick(d, "1", "1Gi")))}}
	case 1:
		memory.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: new(resource.MustParse("0")),
			ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: new(resource.MustParse("0")), Max: new(resource.MustParse("12Gi"))}}
	case 2:
		memory.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: new(resource.MustParse("4Gi")),
			ValidValues: []resource.Quantity{resource.MustParse("2"), resource.MustParse("4Gi"), resource.MustParse("8Gi")}}
	}
	out.Capacity["memory"] = memory
	if d.oneIn(2) {
		out.Capacity["shares"] = resourcev1.DeviceCapacity{Value: resource.MustParse("3"), RequestPolicy: &resourcev1.CapacityRequestPolicy{
			Default: new(resource.MustParse("1")), ValidRange: &resourcev1.CapacityRequestPolicyRange{
				Min: new(resource.MustParse("1")), Max: new(resource.MustParse("3")), Step: new(resource.MustParse("1"))}}}
	}
	if d.oneIn(8) {
		out.Capacity = nil
	}
}

// expression draws a selector; some cannot be evaluated for devices that lack an attribute.
func (d *drawing) expression() string {
	driver := pick(d, d.drivers...)
	list := []string{
		`device.driver == "` + driver + `"`,
		`device.driver.endsWith("example.com")`,
		`device.driver == "` + driver + `" && device.attributes["` + driver + `"].model == "` + pick(d, "a", "b") + `"`,
		`device.driver == "` + driver + `" && device.attributes["` + driver + `"].version.compareTo(semver("2.0.0")) >= 0`,
		`"memory" in device.capacity["` + driver + `"] && device.capacity["` + driver + `"].memory.compareTo(quantity("20Gi")) >= 0`,
		`has(device.attributes["root.example.com"].pcie) && device.attributes["root.example.com"].pcie == "r0"`,
		`device.allowMultipleAllocations == ` + pick(d, "true", "false"),
		`device.driver == "` + driver + `" && device.attributes["` + driver + `"].size > 0`,
	}
	if d.errors {
		list = append(list, `device.attributes["`+driver+`"].size >= 1`, `device.attributes["`+driver+`"].model == "a"`, `device.attributes["`+driver+`"].fast`)
		if d.oneIn(40) {
			return `device.nothing`
		}
	}
	return pick(d, list...)
}

func (d *drawing) selectors(most int) []resourcev1.DeviceSelector {
	var out []resourcev1.DeviceSelector
	for range d.IntN(most + 1) {
		out = append(out, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: d.expression()}})
	}
	return out
}

func (d *drawing) classes() []*resourcev1.DeviceClass {
	out := []*resourcev1.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "any"}}}
	for i := range 2 {
		out = append(out, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class-%d", i)},
			Spec: resourcev1.DeviceClassSpec{Selectors: d.selectors(1)}})
	}
	return out
}

func (d *drawing) claim(name string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	several := false
	for i := range pick(d, 1, 1, 2, 3) {
		r := resourcev1.DeviceRequest{Name: fmt.Sprintf("req-%d", i)}
		if d.oneIn(4) {
			for j := range 1 + d.IntN(3) {
				sub := d.ask()
				sub.Name = fmt.Sprintf("sub-%d", j)
				r.FirstAvailable = append(r.FirstAvailable, sub)
				several = several || sub.Count > 1 || sub.AllocationMode == resourcev1.DeviceAllocationModeAll
			}
		} else {
			a := d.ask()
			r.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: a.DeviceClassName, Selectors: a.Selectors, AllocationMode: a.AllocationMode,
				Count: a.Count, Tolerations: a.Tolerations, Capacity: a.Capacity}
			if d.admin && d.oneIn(3) {
				r.Exactly.AdminAccess = new(true)
			}
			several = several || a.Count > 1 || a.AllocationMode == resourcev1.DeviceAllocationModeAll
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, r)
	}
	for d.oneIn(3) {
		k := resourcev1.DeviceConstraint{}
		if d.distinct && d.oneIn(2) {
			k.DistinctAttribute = new(d.attribute())
			d.lenient = d.lenient || several
		} else {
			k.MatchAttribute = new(d.attribute())
		}
		if d.oneIn(2) {
			k.Requests = []string{"req-0", pick(d, "req-1", "req-1/sub-0", "req-2")}
		}
		c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, k)
	}
	return c
}

func (d *drawing) attribute() resourcev1.FullyQualifiedName {
	driver := pick(d, d.drivers...)
	return resourcev1.FullyQualifiedName(pick(d, "root.example.com/pcie", driver+"/model", driver+"/size", driver+"/version", driver+"/fast"))
}

func (d *drawing) ask() resourcev1.DeviceSubRequest {
	out := resourcev1.DeviceSubRequest{DeviceClassName: pick(d, "any", "class-0", "class-1"), Selectors: d.selectors(1),
		AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: pick[int64](d, 1, 1, 1, 2, 3)}
	switch {
	case d.oneIn(7):
		out.AllocationMode, out.Count = resourcev1.DeviceAllocationModeAll, 0
	case d.oneIn(40):
		out.Count = pick[int64](d, 20, 33)
	}
	if d.taints && d.oneIn(2) {
		out.Tolerations = append(out.Tolerations, resourcev1.DeviceToleration{Key: pick(d, "broken", "slow"), Operator: pick(d, resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists),
			Effect: pick(d, "", resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute)})
	}
	if d.shares && d.oneIn(2) {
		out.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
			resourcev1.QualifiedName(pick(d, "memory", "memory", "shares", "nothing")): resource.MustParse(pick(d, "0", "1", "2", "1500m", "4Gi", "9Gi", "30Gi"))}}
	}
	return out
}
