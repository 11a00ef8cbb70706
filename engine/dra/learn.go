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
// node's own, in order, without what is more than a template can say (counters, several nodes, several pools of one driver). What tells single devices apart is not
// known of another machine; which of its devices will agree in it is.
func (p *Published) Templates(node *corev1.Node) (out []device.Template) {
	m := NewModel()
	pools := p.Pools(m, node.Name, node.Labels)
	count := map[string]int{}
	for i := range pools {
		count[pools[i].Driver]++
	}
	for _, pool := range pools {
		plain := func(d device.Device) bool { return len(d.Consumes) == 0 && d.NotModelled == "" && !d.Elsewhere }
		if pool.Incomplete || pool.Invalid != "" || len(pool.Devices) == 0 || count[pool.Driver] > 1 || p.isEverywhere(pool.Driver, pool.Name) ||
			slices.ContainsFunc(pool.Devices, func(d device.Device) bool { return !plain(d) }) {
			continue
		}
		t := device.Template{Driver: pool.Driver, Pool: pool.Driver}
		for _, d := range pool.Devices {
			s := m.shapes[d.Shape]
			s.Attributes = maps.Clone(s.Attributes)
			t.Devices = append(t.Devices, device.Expected{Name: d.Name, Shape: s})
		}
		forgetSingle(&t)
		out = append(out, t)
	}
	return out
}

func (p *Published) isEverywhere(driver, pool string) bool {
	return slices.Contains(p.everywhere, poolID{driver, pool})
}

// single are the last words of attributes that no two devices share, in small letters.
var single = []string{"uuid", "pcibusid", "pciaddress", "serial", "serialnumber"}

// forgetSingle makes of values that differ between the devices of a pool, and of those that tell single devices apart, groups of devices
// that agree.
func forgetSingle(t *device.Template) {
	names := map[string]bool{}
	for i := range t.Devices {
		for name := range t.Devices[i].Shape.Attributes {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		groups := map[device.Value]int{}
		for i := range t.Devices {
			v := t.Devices[i].Shape.Attributes[name]
			if _, known := groups[v]; !known {
				groups[v] = len(groups)
			}
		}
		last := strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
		if len(groups) == 1 && !slices.Contains(single, last) {
			continue
		}
		for i := range t.Devices {
			if v, has := t.Devices[i].Shape.Attributes[name]; has {
				t.Devices[i].Shape.Attributes[name] = device.Value{Kind: device.Alike, Text: strconv.Itoa(groups[v])}
			}
		}
	}
}

// differ makes groups, too, of values in which the devices of another machine of the kind, which has as many, are not like those of t.
func differ(t *device.Template, other *device.Template) {
	if len(t.Devices) != len(other.Devices) {
		return
	}
	for i := range t.Devices {
		for name, v := range t.Devices[i].Shape.Attributes {
			if v.Kind != device.Alike && other.Devices[i].Shape.Attributes[name] != v {
				for j := range t.Devices {
					if _, has := t.Devices[j].Shape.Attributes[name]; has {
						t.Devices[j].Shape.Attributes[name] = device.Value{Kind: device.Alike, Text: "0"} // it was the same for all
					}
				}
			}
		}
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

// Remember adds what was known before, where nothing else is known, or fewer devices.
func (l Learned) Remember(before Learned) {
	for kind, templates := range before {
		for i := range templates {
			l.add(kind, &templates[i])
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
