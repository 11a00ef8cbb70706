package assortment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
)

// Catalog makes instance types of what MachineDeployments make: those with one name are one type, sold once for each of them.
// Labels in which they differ belong to the offerings; where their capacity differs, the smaller one counts, and the notes say
// so.
func Catalog(all []*Machines) (types []engine.InstanceType, notes []string) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *Machines) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Key, b.Key)) })
	keys := map[string]bool{}
	for _, m := range all {
		for key := range m.Labels {
			keys[key] = true
		}
	}
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Type == all[0].Type {
			n++
		}
		t, more := instanceType(all[:n], keys)
		types, notes, all = append(types, t), append(notes, more...), all[n:]
	}
	return types, notes
}

func instanceType(group []*Machines, keys map[string]bool) (t engine.InstanceType, notes []string) {
	first := group[0]
	t = engine.InstanceType{Name: first.Type, Labels: map[string][]string{}, Capacity: maps.Clone(first.Capacity), Overhead: maps.Clone(first.Overhead)}
	for _, m := range group[1:] {
		if smaller(t.Capacity, m.Capacity) {
			notes = append(notes, fmt.Sprintf("%s and %s both make %s, with different capacity: the smaller one is counted on; name different types in their annotations", first.Key, m.Key, first.Type))
		}
		larger(t.Overhead, m.Overhead)
	}
	for key := range keys {
		value, has := first.Labels[key]
		same := !slices.ContainsFunc(group, func(m *Machines) bool { other, also := m.Labels[key]; return other != value || also != has })
		switch {
		case same && has:
			t.Labels[key] = []string{value}
		case same:
			t.Labels[key] = nil
		}
	}
	for _, m := range group {
		o := engine.Offering{Zone: m.Zone, CapacityType: m.CapacityType, Price: m.Price, SoldOut: m.Blocked != "", Taints: m.Taints}
		for key, value := range m.Labels {
			if _, shared := t.Labels[key]; !shared {
				if o.Labels == nil {
					o.Labels = map[string]string{}
				}
				o.Labels[key] = value
			}
		}
		t.Offerings = merge(t.Offerings, o)
	}
	return t, notes
}

// merge adds an offering. One that differs in nothing but its price is the same as what is there already: the cheaper one of
// those that can be had is taken first.
func merge(list []engine.Offering, o engine.Offering) []engine.Offering {
	i := slices.IndexFunc(list, func(have engine.Offering) bool {
		return have.Zone == o.Zone && have.CapacityType == o.CapacityType && maps.Equal(have.Labels, o.Labels) && slices.Equal(have.Taints, o.Taints)
	})
	if i < 0 {
		return append(list, o)
	}
	if have := &list[i]; !o.SoldOut && (have.SoldOut || o.Price < have.Price) || o.SoldOut && have.SoldOut && o.Price < have.Price {
		*have = o
	}
	return list
}

// smaller lowers a list to another one, and reports whether they differ.
func smaller(list, other corev1.ResourceList) (differ bool) {
	for name, q := range list {
		if o := other[name]; o.Cmp(q) != 0 {
			differ = true
			if o.Cmp(q) < 0 {
				list[name] = o
			}
		}
	}
	for name := range other {
		if _, ok := list[name]; !ok {
			differ = true
		}
	}
	return differ
}

// larger raises a list to another one.
func larger(list, other corev1.ResourceList) {
	for name, q := range other {
		if has := list[name]; has.Cmp(q) < 0 {
			list[name] = q
		}
	}
}
