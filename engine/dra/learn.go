package dra

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"tenon.sh/engine/device"
)

// Templates returns the published pools of the node that another machine of its kind will have too: all pools of a driver, in order. A driver
// has none if one of its pools is incomplete, or exceeds a template (taints, conditions to be met after binding, devices of several nodes). The
// values that distinguish single devices are unknown for another machine; the groups of devices with equal values are known.
func (p *Published) Templates(node *corev1.Node) (out []device.Template) {
	m := NewModel()
	unfit := map[string]bool{} // drivers without templates
	of := map[string]int{}     // number of pools by driver
	for _, id := range slices.SortedFunc(slices.Values(p.own[node.Name]), byPoolID) {
		pool, conditions, ok := p.pool(m, id, node.Name, node.Labels)
		if !ok || conditions || pool.Incomplete || pool.Invalid != "" || p.goesBeyond(id, node) ||
			slices.ContainsFunc(pool.Devices, func(d device.Device) bool { return len(d.Taints) > 0 || d.NotModelled != "" }) {
			unfit[id.driver] = true
			continue
		}
		if len(pool.Devices) == 0 {
			continue
		}
		t := device.Template{Driver: pool.Driver, Pool: pool.Driver, Counters: pool.Counters}
		if of[id.driver]++; of[id.driver] > 1 {
			t.Pool += "/" + strconv.Itoa(of[id.driver])
		}
		for _, d := range pool.Devices {
			s := m.shapes[d.Shape]
			s.Attributes = maps.Clone(s.Attributes)
			t.Devices = append(t.Devices, device.Expected{Name: d.Name, Shape: s, Consumes: d.Consumes})
		}
		out = append(out, t)
	}
	out = slices.DeleteFunc(out, func(t device.Template) bool { return unfit[t.Driver] })
	forgetSingle(out)
	return out
}

// goesBeyond reports whether other nodes may use a part of the pool.
func (p *Published) goesBeyond(id poolID, node *corev1.Node) bool {
	return slices.ContainsFunc(p.all[id], func(s *resourcev1.ResourceSlice) bool { return nodeOf(s) != node.Name })
}

// single are the last words, in small letters, of attributes that name a device or its location in the machine.
var single = []string{"uuid", "parentuuid", "pcibusid", "pciaddress", "pcieroot", "serial", "serialnumber"}

// forgetSingle replaces values that distinguish single devices by groups of devices with equal values. The groups are shared by all drivers on
// the node, because devices of several drivers can have equal attributes, such as the root of the bus.
func forgetSingle(list []device.Template) {
	names := map[string]bool{} // attributes, true if their values are to be forgotten
	for i := range list {
		values, have := map[string]map[device.Value]bool{}, map[string]int{}
		for j := range list[i].Devices {
			for name, v := range list[i].Devices[j].Shape.Attributes {
				if values[name] == nil {
					values[name] = map[device.Value]bool{}
				}
				values[name][v] = true
				have[name]++
			}
		}
		for name, of := range values {
			last := strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
			apart := have[name] > 1 && len(of) == have[name] && !slices.ContainsFunc(slices.Collect(maps.Keys(of)), func(v device.Value) bool { return v.Kind == device.Truth })
			names[name] = names[name] || apart || slices.Contains(single, last)
		}
	}
	for name, forgotten := range names {
		if forgotten {
			group(list, name)
		}
	}
}

// group replaces the attribute's values by the groups of devices with equal values.
func group(list []device.Template, name string) {
	groups := map[device.Value]int{}
	for i := range list {
		for j := range list[i].Devices {
			attributes := list[i].Devices[j].Shape.Attributes
			v, has := attributes[name]
			if !has {
				continue
			}
			if _, known := groups[v]; !known {
				groups[v] = len(groups)
			}
			attributes[name] = device.Value{Kind: device.Alike, Text: strconv.Itoa(groups[v])}
		}
	}
}

// differ replaces values by groups, too, if they differ between the pools and another machine of the kind with as many devices.
func differ(pools, other []device.Template) {
	if !slices.EqualFunc(pools, other, func(a, b device.Template) bool { return len(a.Devices) == len(b.Devices) }) {
		return
	}
	names := map[string]bool{}
	for i := range pools {
		for j := range pools[i].Devices {
			for name, v := range pools[i].Devices[j].Shape.Attributes {
				if v.Kind != device.Alike && other[i].Devices[j].Shape.Attributes[name] != v {
					names[name] = true
				}
			}
		}
	}
	for name := range names {
		group(pools, name)
	}
}

// Learned holds the pools that machines publish, by the names of their instance types: all pools of each driver, in order of drivers.
type Learned map[string][]device.Template

// Learn adds the published pools of a node of the type. Of several nodes, the one with most devices of a driver counts, because the others may
// have lost some.
func (l Learned) Learn(kind string, templates []device.Template) {
	for _, pools := range byDriver(templates) {
		if !l.add(kind, pools) {
			differ(l.of(kind, pools[0].Driver), pools)
		}
	}
}

// Remember adds the pools in before if no pools of their type and driver are known, or if they have more devices and sure is false for the
// type. sure reports whether several nodes of the type show the current pools.
func (l Learned) Remember(before Learned, sure func(kind string) bool) {
	for kind, templates := range before {
		for _, pools := range byDriver(templates) {
			have := l.of(kind, pools[0].Driver)
			if len(have) == 0 || !sure(kind) && devicesOf(have) < devicesOf(pools) {
				l.add(kind, pools)
				continue
			}
			differ(have, pools) // differing attributes stay groups
		}
	}
}

// byDriver divides pools, which are in order of their drivers, by driver.
func byDriver(list []device.Template) (out [][]device.Template) {
	for from, i := 0, 1; i <= len(list); i++ {
		if i == len(list) || list[i].Driver != list[from].Driver {
			out = append(out, list[from:i])
			from = i
		}
	}
	return out
}

func devicesOf(pools []device.Template) (n int) {
	for i := range pools {
		n += len(pools[i].Devices)
	}
	return n
}

func (l Learned) of(kind, driver string) []device.Template {
	for _, pools := range byDriver(l[kind]) {
		if pools[0].Driver == driver {
			return pools
		}
	}
	return nil
}

// add stores a driver's pools if they have more devices than the stored ones, and reports whether it did.
func (l Learned) add(kind string, pools []device.Template) bool {
	driver := pools[0].Driver
	if devicesOf(l.of(kind, driver)) >= devicesOf(pools) {
		return false
	}
	others := slices.DeleteFunc(slices.Clone(l[kind]), func(t device.Template) bool { return t.Driver == driver })
	l[kind] = append(others, pools...)
	slices.SortStableFunc(l[kind], func(a, b device.Template) int { return strings.Compare(a.Driver, b.Driver) })
	return true
}
