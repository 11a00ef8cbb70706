package scenario

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/deviceselector"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
)

// answerSelectors sets the snapshot's evaluator of selectors if there are claims for devices, or devices that can be claimed.
func answerSelectors(s *engine.Snapshot) {
	if len(s.ResourceClaims)+len(s.ResourceClaimTemplates)+len(s.ResourceSlices) > 0 || haveDevices(s.Classes) {
		s.Selectors = deviceselector.New().Ask
	}
}

// haveDevices reports whether drivers are expected to publish devices on machines of some type.
func haveDevices(classes []engine.Class) bool {
	return slices.ContainsFunc(classes, func(c engine.Class) bool {
		return slices.ContainsFunc(c.InstanceTypes, func(t engine.InstanceType) bool { return len(t.Claimable) > 0 })
	})
}

// devices reads devices=(driver=gpu.example.com count=8 model=L4 memory=24Gi shares=4 root=each): a pool of equal devices that a driver
// publishes on machines of the type. memory and shares are capacities. With shares, several claims may have parts of a device. The value each
// means that all devices differ in this attribute. Other words are attributes.
func (w word) devices() (device.Template, error) {
	r, err := w.group("devices")
	if err != nil {
		return device.Template{}, err
	}
	return r.devices(w)
}

// defaultPool is the name of a pool of devices without a pool=.
const defaultPool = "devices"

// devices reads the words of a pool of devices. of is the word around them.
func (r *reader) devices(of word) (out device.Template, err error) {
	out.Pool = defaultPool
	count := 1
	shape := device.Shape{Attributes: map[string]device.Value{}, Capacities: map[string]device.Capacity{}}
	var apart []string
	for r.more() {
		w := r.next()
		key, value := w.cut()
		switch {
		case key == "driver":
			out.Driver, shape.Driver = value, value
		case key == "pool":
			out.Pool = value
		case key == "count":
			if count, err = w.number(); err != nil || count < 0 || count > 128 {
				return out, w.errorf("write how many devices the pool has, at most 128: count=8")
			}
		case key == "memory" || key == "shares":
			q, err := resource.ParseQuantity(value)
			if err != nil {
				return out, w.errorf("%q is no quantity", value)
			}
			capacity := device.Capacity{Amount: q.MilliValue()}
			if key == "shares" {
				shape.Shared, capacity.Policy = true, &device.Policy{Default: new(int64(1000))}
			}
			shape.Capacities[key] = capacity
		case value == "each":
			apart = append(apart, key)
		case value != "":
			shape.Attributes[key] = device.Value{Kind: device.Text, Text: value}
		default:
			return out, r.unknown(w, "driver= pool= count= memory= shares=, and attributes")
		}
	}
	if out.Driver == "" {
		return out, of.errorf("a pool of devices has a driver: devices=(driver=gpu.example.com)")
	}
	for i := range count {
		own := shape
		if len(apart) > 0 {
			own.Attributes = map[string]device.Value{}
			for name, v := range shape.Attributes {
				own.Attributes[name] = v
			}
			for _, name := range apart {
				own.Attributes[name] = device.Value{Kind: device.Text, Text: strconv.Itoa(i)}
			}
		}
		prefix, _, _ := strings.Cut(out.Driver, ".")
		out.Devices = append(out.Devices, device.Expected{Name: prefix + "-" + strconv.Itoa(i), Shape: own})
	}
	return out, nil
}
