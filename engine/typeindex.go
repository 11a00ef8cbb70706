package engine

import (
	"slices"

	v1 "tenon.sh/api/v1"
)

// typeIndex finds instance types by class and name.
type typeIndex map[v1.NodeClassReference]map[string]*InstanceType

func newTypeIndex(s *Snapshot) typeIndex {
	out := typeIndex{}
	for i := range s.Classes {
		c := &s.Classes[i]
		types := out[c.Ref]
		if types == nil {
			types = make(map[string]*InstanceType, len(c.InstanceTypes))
		}
		for j := range c.InstanceTypes {
			types[c.InstanceTypes[j].Name] = &c.InstanceTypes[j]
		}
		out[c.Ref] = types
	}
	return out
}

// find is the type of that name; nil if the class does not list it, or is nil.
func (x typeIndex) find(class *v1.NodeClassReference, name string) *InstanceType {
	if class == nil {
		return nil
	}
	return x[*class][name]
}

// offer is what classes sell, with what finds it.
type offer struct {
	catalogs []soldBy
	types    typeIndex
	drivers  []string // of which some type takes only so many volumes
	prices   *PriceBook
}

// soldBy tells a class's catalog from others. One that was read anew is another one.
type soldBy struct {
	class v1.NodeClassReference
	first *InstanceType
	types int
}

// offerOf is what the snapshot's classes sell. A nil memo remembers nothing.
func (m *Memo) offerOf(s *Snapshot) *offer {
	var catalogs []soldBy
	for i := range s.Classes {
		by := soldBy{class: s.Classes[i].Ref, types: len(s.Classes[i].InstanceTypes)}
		if by.types > 0 {
			by.first = &s.Classes[i].InstanceTypes[0]
		}
		catalogs = append(catalogs, by)
	}
	if m != nil && m.offer != nil && slices.Equal(m.offer.catalogs, catalogs) {
		return m.offer
	}
	types := newTypeIndex(s)
	out := &offer{catalogs: catalogs, types: types, drivers: limitedDrivers(s), prices: newPriceBook(s, types)}
	if m != nil {
		m.offer = out
		for _, f := range m.nodes { // what was sold before is not kept for nodes that nobody asks for any more
			if m.fleet == nil || f.fleet != m.fleet.number {
				f.machine, f.offer = nil, nil
			}
		}
	}
	return out
}

func (m *Memo) typesOf(s *Snapshot) typeIndex { return m.offerOf(s).types }

// limitedDrivers are those of which some type takes only so many volumes, in order.
func limitedDrivers(s *Snapshot) []string {
	drivers := map[string]bool{}
	for i := range s.Classes {
		for j := range s.Classes[i].InstanceTypes {
			for driver := range s.Classes[i].InstanceTypes[j].AttachLimits {
				drivers[driver] = true
			}
		}
	}
	return sortedKeys(drivers)
}
