// Package deviceselector evaluates the selectors of DeviceClasses and ResourceClaims: expressions in CEL, with the variables and the cost limit of
// Kubernetes. The engine takes the answers and evaluates no expression.
package deviceselector

import (
	"context"
	"strconv"
	"strings"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"

	"tenon.sh/engine/device"
)

// most is how many answers are kept. A cluster of a hundred shapes and a hundred expressions has a tenth of it.
const most = 100_000

// An Evaluator remembers expressions and what they said of shapes. It may be used by several goroutines at once.
type Evaluator struct {
	compiled *cel.Cache
	mu       sync.Mutex // guards answers
	answers  map[[2]string]device.Answer
}

// New returns one that remembers nothing yet.
func New() *Evaluator {
	return &Evaluator{compiled: cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true}), answers: map[[2]string]device.Answer{}}
}

// Ask says what each expression says of a shape. An expression that does not compile fails for every shape.
func (e *Evaluator) Ask(expressions []string, shape *device.Shape) []device.Answer {
	key := shape.Key()
	out := make([]device.Answer, 0, len(expressions))
	for _, expression := range expressions {
		out = append(out, e.remembered([2]string{expression, key}, expression, shape))
	}
	return out
}

func (e *Evaluator) remembered(key [2]string, expression string, shape *device.Shape) device.Answer {
	e.mu.Lock()
	answer, ok := e.answers[key]
	e.mu.Unlock()
	if ok {
		return answer
	}
	answer = e.evaluate(expression, shape)
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.answers) >= most {
		clear(e.answers) // what is asked for now is asked for again
	}
	e.answers[key] = answer
	return answer
}

func (e *Evaluator) evaluate(expression string, shape *device.Shape) device.Answer {
	program := e.compiled.GetOrCompile(expression)
	if program.Error != nil {
		return device.Failed
	}
	matches, _, err := program.DeviceMatches(context.Background(), deviceOf(shape))
	switch {
	case err != nil:
		return device.Failed
	case matches:
		return device.Yes
	}
	return device.No
}

// Problem says why an expression cannot be read, in one line; empty if it can.
func (e *Evaluator) Problem(expression string) string {
	if program := e.compiled.GetOrCompile(expression); program.Error != nil {
		first, _, _ := strings.Cut(program.Error.Error(), "\n")
		return first
	}
	return ""
}

// deviceOf leaves out attributes whose value nobody knows yet: to a selector they are not there. One of a kind that is not known makes
// every selector fail, as it does in kube-scheduler.
func deviceOf(shape *device.Shape) cel.Device {
	d := cel.Device{Driver: shape.Driver, AllowMultipleAllocations: &shape.Shared,
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}, Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{}}
	for name, v := range shape.Attributes {
		if v.Kind != device.Alike {
			d.Attributes[resourcev1.QualifiedName(name)] = attributeOf(v)
		}
	}
	for name, c := range shape.Capacities {
		d.Capacity[resourcev1.QualifiedName(name)] = resourcev1.DeviceCapacity{Value: *resource.NewMilliQuantity(c.Amount, resource.BinarySI)}
	}
	return d
}

func attributeOf(v device.Value) resourcev1.DeviceAttribute {
	switch v.Kind {
	case device.Text:
		return resourcev1.DeviceAttribute{StringValue: &v.Text}
	case device.Version:
		return resourcev1.DeviceAttribute{VersionValue: &v.Text}
	case device.Truth:
		return resourcev1.DeviceAttribute{BoolValue: new(v.Text == "true")}
	case device.Number:
		if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil {
			return resourcev1.DeviceAttribute{IntValue: &n}
		}
	}
	return resourcev1.DeviceAttribute{}
}
