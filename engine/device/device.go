// Package device allocates devices to claims as kube-scheduler does (Dynamic Resource Allocation): it returns the devices of one machine that serve
// the claims of one pod, or the reason for which there are none. It uses no Kubernetes object and evaluates no expression. Its caller passes the
// devices, the claims, the devices that are taken, and the answers of selectors, once for each shape of device.
//
// Amounts are in thousandths of Kubernetes' units, so that 1500m is a whole number.
package device

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Shape is what selectors can tell of a device. Devices that agree in all of it share one.
type Shape struct {
	Driver string `json:"driver"`
	// Shared says that several claims may have parts of the device (allowMultipleAllocations).
	Shared bool `json:"shared,omitempty"`
	// Attributes and Capacities are named as they are published: a name without a domain belongs to the driver.
	Attributes map[string]Value    `json:"attributes,omitempty"`
	Capacities map[string]Capacity `json:"capacities,omitempty"`
}

// A Kind is the type of an attribute's value.
type Kind uint8

// The kinds of values. The zero value is a kind that is not known, which equals nothing.
const (
	Unknown Kind = iota
	Text
	Number
	Truth
	Version
	// Alike is the value of an attribute that nobody can know before the machine is there: its Text names the group of devices that
	// will agree in it. It says nothing of devices of other groups, and equals no value that is known.
	Alike
)

// A Value is that of an attribute, written as text. Two values are equal if their kinds and texts are.
type Value struct {
	Kind Kind
	Text string
}

// attribute looks a fully qualified name up.
func (s *Shape) attribute(name string) (Value, bool) {
	if v, ok := s.Attributes[name]; ok {
		return v, true
	}
	if rest, ok := cutDomain(name, s.Driver); ok {
		v, ok := s.Attributes[rest]
		return v, ok
	}
	return Value{}, false
}

// cutDomain takes the domain and the slash off name.
func cutDomain(name, domain string) (string, bool) {
	if len(name) > len(domain) && name[:len(domain)] == domain && name[len(domain)] == '/' {
		return name[len(domain)+1:], true
	}
	return "", false
}

// Key is equal for shapes that nothing tells apart.
func (s *Shape) Key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %t", s.Driver, s.Shared)
	for _, name := range slices.Sorted(maps.Keys(s.Attributes)) {
		fmt.Fprintf(&b, "\n%q=%d%q", name, s.Attributes[name].Kind, s.Attributes[name].Text)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Capacities)) {
		c := s.Capacities[name]
		fmt.Fprintf(&b, "\n%q:%d", name, c.Amount)
		p := c.Policy
		if p == nil {
			continue
		}
		fmt.Fprintf(&b, " default %s of %d", optional(p.Default), p.Values)
		if r := p.Range; r != nil {
			fmt.Fprintf(&b, " range %s %s %s", optional(r.Min), optional(r.Max), optional(r.Step))
		}
	}
	return b.String()
}

func optional(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

// A Device is one of a pool.
type Device struct {
	Name string
	// Shape is its number in Facts.Shapes.
	Shape int
	// Consumes lists what it takes of its pool's counters while it is allocated.
	Consumes []Counter
	Taints   []Taint
	// Elsewhere says that it serves other machines only. Selectors are asked about it all the same, as kube-scheduler does.
	Elsewhere bool
	// NotModelled says in words what it needs that this package knows nothing of. An attempt that comes to such a device ends.
	NotModelled string
}

// A Counter is an amount of something that devices of a pool share, such as the memory of a GPU that can be cut in parts.
type Counter struct {
	Set    string `json:"set"`
	Name   string `json:"name"`
	Amount int64  `json:"amount"`
}

// A Taint keeps claims that do not tolerate it from a device.
type Taint struct {
	Key, Value, Effect string
}

// A Pool holds the devices that one driver publishes together.
type Pool struct {
	Driver, Name string
	// Incomplete says that a part of it is not published yet. Nothing is allocated from it.
	Incomplete bool
	// Invalid says in words what contradicts itself in it. Nothing is allocated from it.
	Invalid string
	// Devices stand in the order in which they are tried.
	Devices []Device
	// Others are published apart and serve other machines only. They count for what they take of Counters.
	Others []Device
	// Counters are what there is of each if nothing is allocated.
	Counters []Counter
}

// An ID names one device.
type ID struct {
	Driver, Pool, Device string
}

// An Answer is what a selector says of a shape.
type Answer uint8

// The answers. Failed is an error, such as an attribute that is not there: kube-scheduler gives the whole attempt up as soon as it
// comes to one.
const (
	No Answer = iota
	Yes
	Failed
)

// Facts are what is known of shapes, whatever is allocated.
type Facts struct {
	Shapes []Shape
	// Answers holds a row for each selector, with an answer for each shape.
	Answers [][]Answer
}
