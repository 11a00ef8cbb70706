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

// A Shape is all data of a device that selectors can read. Equal devices share one.
type Shape struct {
	Driver string `json:"driver"`
	// Shared means that several claims may have parts of the device (allowMultipleAllocations).
	Shared bool `json:"shared,omitempty"`
	// Attributes and Capacities have their published names: a name without a domain belongs to the driver.
	Attributes map[string]Value    `json:"attributes,omitempty"`
	Capacities map[string]Capacity `json:"capacities,omitempty"`
}

// A Kind is the type of an attribute's value.
type Kind uint8

// The kinds of values. The zero value means unknown; an unknown value equals nothing.
const (
	Unknown Kind = iota
	Text
	Number
	Truth
	Version
	// Alike is an attribute value that is unknown before the machine exists: Text names the group of devices that will have the same value. Whether
	// devices of other groups have the same value is unknown. It equals no known value.
	Alike
)

// A Value is an attribute's value as text. Values are equal if their kinds and texts are.
type Value struct {
	Kind Kind
	Text string
}

// attribute returns the value of a fully qualified name.
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

// cutDomain cuts the domain and the slash off name.
func cutDomain(name, domain string) (string, bool) {
	if len(name) > len(domain) && name[:len(domain)] == domain && name[len(domain)] == '/' {
		return name[len(domain)+1:], true
	}
	return "", false
}

// Key returns a text that is the same for equal shapes only.
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

// A Device is one device of a pool.
type Device struct {
	Name string
	// Shape is its number in Facts.Shapes.
	Shape int
	// Consumes lists the device's use of its pool's counters while it is allocated.
	Consumes []Counter
	Taints   []Taint
	// Elsewhere means that the device serves other machines only. Like kube-scheduler, the search still evaluates selectors for it.
	Elsewhere bool
	// NotModelled describes a need of the device that this package does not model. An attempt that tries such a device ends.
	NotModelled string
}

// A Counter is an amount that devices of a pool share, such as the memory of a GPU that can be divided.
type Counter struct {
	Set    string `json:"set"`
	Name   string `json:"name"`
	Amount int64  `json:"amount"`
}

// A Taint keeps claims without a toleration off a device.
type Taint struct {
	Key, Value, Effect string
}

// A Pool holds the devices that one driver publishes together.
type Pool struct {
	Driver, Name string
	// Incomplete means that a part of the pool is not published yet. Nothing is allocated from it.
	Incomplete bool
	// Invalid describes a contradiction in the pool. Nothing is allocated from it.
	Invalid string
	// Devices are in the order of the search.
	Devices []Device
	// Others are in other slices and serve other machines only. Only their use of Counters matters.
	Others []Device
	// Counters are the amounts if nothing is allocated.
	Counters []Counter
}

// An ID names one device.
type ID struct {
	Driver, Pool, Device string
}

// An Answer is the result of a selector for a shape.
type Answer uint8

// The answers. Failed is an error, such as a missing attribute: kube-scheduler then gives up the whole attempt.
const (
	No Answer = iota
	Yes
	Failed
)

// Facts are the data of shapes, independent of allocations.
type Facts struct {
	Shapes []Shape
	// Answers holds a row for each selector, with an answer for each shape.
	Answers [][]Answer
}
