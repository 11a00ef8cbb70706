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

// Templates are what drivers have published for the node, as far as another machine of its kind will have the same: all pools of a driver, in
// order, or none of them if one is not whole, or is more than a template can say (taints, conditions to be met after binding,
// devices of several nodes). What tells single devices apart is not known of another machine; which of its devices will agree in it is.
func (p *Published) Templates(node *corev1.Node) (out []device.Template) {
	m := NewModel()
	unfit := map[string]bool{} // drivers
	of := map[string]int{}     // pools of each driver
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

// goesBeyond reports whether other nodes may use something of the pool.
func (p *Published) goesBeyond(id poolID, node *corev1.Node) bool {
	return slices.ContainsFunc(p.all[id], func(s *resourcev1.ResourceSlice) bool { return nodeOf(s) != node.Name })
}

// single are the last words of attributes that say which device it is, or where in its machine, in small letters.
var single = []string{"uuid", "parentuuid", "pcibusid", "pciaddress", "pcieroot", "serial", "serialnumber"}

// forgetSingle makes of values that tell single devices apart groups of devices that agree. A group is one for all drivers on the node:
// they meet in attributes such as the root of the bus.
func forgetSingle(list []device.Template) {
	names := map[string]bool{} // of attributes, true for those that are to be forgotten
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

// group puts in the place of the attribute's values which of the devices agree in it.
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

// differ makes groups, too, of values in which the devices of another machine of the kind, which has as many, are not like those of the
// driver's pools.
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

// Learned holds what machines of instance types are known to publish, by the types' names: in order of drivers, all pools of each.
type Learned map[string][]device.Template

// Learn adds what drivers have published for a node of the type. Of several nodes the one with most devices of a driver counts: one that has
// lost some says nothing of others.
func (l Learned) Learn(kind string, templates []device.Template) {
	for _, pools := range byDriver(templates) {
		if !l.add(kind, pools) {
			differ(l.of(kind, pools[0].Driver), pools)
		}
	}
}

// Remember adds what was known before, where nothing else is known, or fewer devices that sure does not speak for: it reports whether several
// nodes of the type show what is known.
func (l Learned) Remember(before Learned, sure func(kind string) bool) {
	for kind, templates := range before {
		for _, pools := range byDriver(templates) {
			have := l.of(kind, pools[0].Driver)
			if len(have) == 0 || !sure(kind) && devicesOf(have) < devicesOf(pools) {
				l.add(kind, pools)
				continue
			}
			differ(have, pools) // what was found to differ stays so
		}
	}
}

// byDriver parts pools that are in order of their drivers.
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

// add reports whether a driver's pools are now what is known of it.
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
