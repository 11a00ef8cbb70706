package assortment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/provider/clusterapi/contract"
)

// Catalog makes instance types from the machines of MachineDeployments. Machines with the same type name become one type with one offering
// for each MachineDeployment. Labels in which they differ belong to the offerings. If their capacities differ, the smaller one is used, and a
// note reports this.
func Catalog(all []*Machines) (types []engine.InstanceType, notes []string) {
	return catalog(all, false)
}

// BoundedCatalog is like Catalog, but each MachineDeployment is an offering of its own, with its name as a label. An offering sells no more
// machines than the MachineDeployment may still add. It is for callers that plan once; a running controller learns from failed launches that
// there are no more.
func BoundedCatalog(all []*Machines) []engine.InstanceType {
	types, _ := catalog(all, true)
	return types
}

func catalog(all []*Machines, bounded bool) (types []engine.InstanceType, notes []string) {
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
		t, more := instanceType(all[:n], keys, bounded)
		types, notes, all = append(types, t), append(notes, more...), all[n:]
	}
	return types, notes
}

func instanceType(group []*Machines, keys map[string]bool, bounded bool) (t engine.InstanceType, notes []string) {
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
		if bounded {
			m.bound(&o)
		}
		t.Offerings = merge(t.Offerings, o)
	}
	return t, notes
}

// WithMachine returns a BoundedCatalog to which an existing machine's offering is added, if it is missing. The machine may have another type
// or place than the machines that the MachineDeployment makes now. The added offering has the MachineDeployment's price, and is sold out.
func (m *Machines) WithMachine(types []engine.InstanceType, id engine.OfferingID, capacity corev1.ResourceList) []engine.InstanceType {
	o := engine.Offering{Zone: id.Zone, CapacityType: id.CapacityType, Price: m.Price}
	m.bound(&o)
	o.SoldOut = true
	i, found := slices.BinarySearchFunc(types, id.InstanceType, func(t engine.InstanceType, name string) int { return cmp.Compare(t.Name, name) })
	if !found {
		types = slices.Insert(types, i, engine.InstanceType{Name: id.InstanceType, Capacity: capacity})
	}
	same := func(have engine.Offering) bool {
		return have.Zone == o.Zone && have.CapacityType == o.CapacityType && have.Labels[contract.DeploymentNameLabel] == o.Labels[contract.DeploymentNameLabel]
	}
	if !slices.ContainsFunc(types[i].Offerings, same) {
		types[i].Offerings = append(types[i].Offerings, o)
	}
	return types
}

// bound restricts an offering to the MachineDeployment.
func (m *Machines) bound(o *engine.Offering) {
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	_, o.Labels[contract.DeploymentNameLabel], _ = strings.Cut(m.Key, "/")
	if m.Max >= 0 {
		o.SoldOut, o.Reservation, o.Slots = m.Blocked != "" && !m.Full, m.Key, int(max(0, m.Max-m.Replicas))
		o.Bound = "the largest sizes of MachineDeployments by annotation " + contract.MaxSizeAnnotation
	}
}

// merge adds an offering. If an offering of the list differs only in its price, the better one stays: an available one rather than a sold-out
// one, then the cheaper one.
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

// smaller lowers each quantity of a list to that of the other list, and reports whether the lists differ.
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

// larger raises each quantity of a list to that of the other list.
func larger(list, other corev1.ResourceList) {
	for name, q := range other {
		if has := list[name]; has.Cmp(q) < 0 {
			list[name] = q
		}
	}
}
