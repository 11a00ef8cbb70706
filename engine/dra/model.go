// Package dra reads Kubernetes' objects for Dynamic Resource Allocation into the terms of engine/device: the devices that ResourceSlices publish for
// a machine, the requests of ResourceClaims and DeviceClasses, the allocated devices, and the claims for which a pod waits. The caller evaluates
// selectors, because they are expressions in CEL.
package dra

import (
	"maps"
	"slices"
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine/device"
)

// A Model numbers the shapes of devices and the selectors that it reads.
type Model struct {
	shapes      []device.Shape
	shapeOf     map[string]int
	expressions []string
	selectorOf  map[string]int
	// wrong names the amount of each shape that cannot be counted exactly. It is "" for most shapes.
	wrong []string
}

// NewModel returns an empty Model.
func NewModel() *Model {
	return &Model{shapeOf: map[string]int{}, selectorOf: map[string]int{}}
}

// Facts returns the answer of every selector for every shape. ask answers for one shape and all selectors, in their order.
func (m *Model) Facts(ask func(expressions []string, shape *device.Shape) []device.Answer) *device.Facts {
	facts := &device.Facts{Shapes: m.shapes, Answers: make([][]device.Answer, len(m.expressions))}
	for j := range m.shapes {
		for i, answer := range ask(m.expressions, &m.shapes[j]) {
			facts.Answers[i] = append(facts.Answers[i], answer)
		}
	}
	return facts
}

// Expression returns the text of the selector with this number.
func (m *Model) Expression(selector int) string { return m.expressions[selector] }

func (m *Model) selector(expression string) int {
	n, ok := m.selectorOf[expression]
	if !ok {
		n = len(m.expressions)
		m.selectorOf[expression] = n
		m.expressions = append(m.expressions, expression)
	}
	return n
}

// shape returns the index of the device's shape.
func (m *Model) shape(driver string, d *resourcev1.Device) int {
	s := device.Shape{Driver: driver, Shared: truth(d.AllowMultipleAllocations),
		Attributes: make(map[string]device.Value, len(d.Attributes)), Capacities: make(map[string]device.Capacity, len(d.Capacity))}
	for name, a := range d.Attributes {
		s.Attributes[string(name)] = valueOf(&a)
	}
	wrong := ""
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		c := d.Capacity[name]
		capacity, exact := capacityOf(&c)
		if !exact {
			wrong = "capacity " + string(name) + " of " + c.Value.String()
		}
		s.Capacities[string(name)] = capacity
	}
	return m.number(s, wrong)
}

// number returns the index of a shape. A new shape gets a new index. Shapes with different texts in wrong are different.
func (m *Model) number(s device.Shape, wrong string) int {
	key := s.Key() + wrong
	n, ok := m.shapeOf[key]
	if !ok {
		n = len(m.shapes)
		m.shapeOf[key] = n
		m.shapes = append(m.shapes, s)
		m.wrong = append(m.wrong, wrong)
	}
	return n
}

// valueOf returns Unknown for lists: selectors that read one fail if the feature is off, which is the default.
func valueOf(a *resourcev1.DeviceAttribute) device.Value {
	switch {
	case a.IntValue != nil:
		return device.Value{Kind: device.Number, Text: strconv.FormatInt(*a.IntValue, 10)}
	case a.BoolValue != nil:
		return device.Value{Kind: device.Truth, Text: strconv.FormatBool(*a.BoolValue)}
	case a.StringValue != nil:
		return device.Value{Kind: device.Text, Text: *a.StringValue}
	case a.VersionValue != nil:
		return device.Value{Kind: device.Version, Text: *a.VersionValue}
	}
	return device.Value{}
}

func capacityOf(c *resourcev1.DeviceCapacity) (device.Capacity, bool) {
	amount, exact := amountOf(&c.Value)
	out := device.Capacity{Amount: amount}
	p := c.RequestPolicy
	if p == nil {
		return out, exact
	}
	read := func(q *resource.Quantity) *int64 {
		if q == nil {
			return nil
		}
		n, ok := amountOf(q)
		exact = exact && ok
		return &n
	}
	out.Policy = &device.Policy{Default: read(p.Default)}
	for i := range p.ValidValues {
		out.Policy.Values = append(out.Policy.Values, *read(&p.ValidValues[i]))
	}
	if r := p.ValidRange; r != nil {
		out.Policy.Range = &device.Range{Min: read(r.Min), Max: read(r.Max), Step: read(r.Step)}
	}
	return out, exact
}

// amountOf returns the amount in thousandths, and whether it is exact.
func amountOf(q *resource.Quantity) (int64, bool) {
	n := q.ScaledValue(resource.Milli)
	return n, resource.NewMilliQuantity(n, q.Format).Cmp(*q) == 0
}

func amountsOf[N ~string](list map[N]resource.Quantity) (map[string]int64, string) {
	out := make(map[string]int64, len(list))
	wrong := ""
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		n, exact := amountOf(&q)
		if !exact {
			wrong = "an amount of " + q.String() + " of " + string(name)
		}
		out[string(name)] = n
	}
	return out, wrong
}
