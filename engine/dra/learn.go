package dra

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/device"
)

// Templates are what drivers have published for the node, as far as another machine of its kind will have the same: whole pools of the
// node's own, in order, without what is more than a template can say (counters, taints, several nodes, several pools of one driver). What
// tells single devices apart is not known of another machine; which of its devices will agree in it is.
func (p *Published) Templates(node *corev1.Node) (out []device.Template) {
	m := NewModel()
	count := map[string]int{}
	for _, id := range p.ofNode[node.Name] {
		count[id.driver]++
	}
	for _, id := range p.ofNode[node.Name] {
		pool, _, ok := p.pool(m, id, node.Name, node.Labels)
		plain := func(d device.Device) bool {
			return len(d.Consumes)+len(d.Taints) == 0 && d.NotModelled == "" && !d.Elsewhere
		}
		if !ok || pool.Incomplete || pool.Invalid != "" || len(pool.Devices) == 0 || count[pool.Driver] > 1 ||
			slices.ContainsFunc(pool.Devices, func(d device.Device) bool { return !plain(d) }) {
			continue
		}
		t := device.Template{Driver: pool.Driver, Pool: pool.Driver}
		for _, d := range pool.Devices {
			s := m.shapes[d.Shape]
			s.Attributes = maps.Clone(s.Attributes)
			t.Devices = append(t.Devices, device.Expected{Name: d.Name, Shape: s})
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b device.Template) int { return strings.Compare(a.Driver, b.Driver) })
	forgetSingle(out)
	return out
}

// single are the last words of attributes that say which device it is, or where in its machine, in small letters.
var single = []string{"uuid", "pcibusid", "pciaddress", "pcieroot", "serial", "serialnumber"}

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

// differ makes groups, too, of values in which the devices of another machine of the kind, which has as many, are not like those of t.
func differ(t *device.Template, other *device.Template) {
	if len(t.Devices) != len(other.Devices) {
		return
	}
	names := map[string]bool{}
	for i := range t.Devices {
		for name, v := range t.Devices[i].Shape.Attributes {
			if v.Kind != device.Alike && other.Devices[i].Shape.Attributes[name] != v {
				names[name] = true
			}
		}
	}
	for name := range names {
		group([]device.Template{*t}, name)
	}
}

// Learned holds what machines of instance types are known to publish, by the types' names.
type Learned map[string][]device.Template

// Learn adds what drivers have published for a node of the type. Of several nodes the one with most devices counts: one that has lost some
// says nothing of others.
func (l Learned) Learn(kind string, templates []device.Template) {
	for i := range templates {
		if !l.add(kind, &templates[i]) {
			differ(l.of(kind, templates[i].Driver), &templates[i])
		}
	}
}

// Remember adds what was known before, where nothing else is known, or fewer devices that sure does not speak for: it reports whether several
// nodes of the type show what is known.
func (l Learned) Remember(before Learned, sure func(kind string) bool) {
	for kind, templates := range before {
		for i := range templates {
			t := &templates[i]
			if have := l.of(kind, t.Driver); have != nil && (sure(kind) || len(have.Devices) >= len(t.Devices)) {
				differ(have, t) // what was found to differ stays so
				continue
			}
			l.add(kind, t)
		}
	}
}

func (l Learned) of(kind, driver string) *device.Template {
	at := slices.IndexFunc(l[kind], func(o device.Template) bool { return o.Driver == driver })
	if at < 0 {
		return nil
	}
	return &l[kind][at]
}

// add reports whether the template is now what is known.
func (l Learned) add(kind string, t *device.Template) bool {
	have := l.of(kind, t.Driver)
	switch {
	case have == nil:
		l[kind] = append(l[kind], *t)
		slices.SortFunc(l[kind], func(a, b device.Template) int { return strings.Compare(a.Driver, b.Driver) })
	case len(have.Devices) < len(t.Devices):
		*have = *t
	default:
		return false
	}
	return true
}
