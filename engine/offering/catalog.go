package offering

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// catalog is a sorted catalog with the data that each compilation needs. A catalog that was read again is a new one.
type catalog struct {
	types []*soldType
	// settled holds the labels that some type or offering sets: on a type that does not set such a label, the label is absent.
	settled map[string]bool
	// values holds the values that types and offerings set for each label.
	values map[string][]string
	known  map[[2]string]bool // the values, by key and value
	// several lists the labels with several values on one type, such as its operating systems, sorted: a machine of the type gets one of the
	// values. The keys of tables are from Pool.tableName.
	several []string
	tables  map[string]*table
	pass    uint64 // the last call that used it
}

// soldType is a type of the catalog.
type soldType struct {
	*engine.InstanceType
	offerings   []*engine.Offering // the cheapest first
	allocatable corev1.ResourceList
	// only holds the type's variants if they are the same in all problems; nil otherwise.
	only []map[string]string
	size typeSize
	// text is the cached result of structure.
	text string
}

// catalogs holds the remembered catalogs of a cache, by their first types.
type catalogs struct {
	byFirst map[*engine.InstanceType]*catalog
	pass    uint64 // the last call that used any
}

// catalogOf returns the catalog, remembered if possible. Its types are sorted by structure (price and size), equal ones by name.
func catalogOf(cache *inventory.Cache, types []engine.InstanceType) *catalog {
	if len(types) == 0 {
		return newCatalog(nil)
	}
	known := inventory.KeptBy[catalogs](cache)
	known.forget(cache.Pass)
	c := known.byFirst[&types[0]]
	if c == nil || len(c.types) != len(types) {
		c = newCatalog(types)
		known.byFirst[&types[0]] = c
	}
	c.pass = cache.Pass
	return c
}

// forget drops, once per call, the catalogs and tables that the last call did not use.
func (k *catalogs) forget(pass uint64) {
	if k.pass == pass {
		return
	}
	if k.byFirst == nil {
		k.byFirst = map[*engine.InstanceType]*catalog{}
	}
	for first, c := range k.byFirst {
		if c.pass < k.pass {
			delete(k.byFirst, first)
		}
		maps.DeleteFunc(c.tables, func(_ string, t *table) bool { return t.pass < k.pass })
	}
	k.pass = pass
}

func newCatalog(types []engine.InstanceType) *catalog {
	c := &catalog{
		settled: settledBy(types),
		values:  map[string][]string{}, known: map[[2]string]bool{}, tables: map[string]*table{},
	}
	note := func(key, value string) {
		if at := [2]string{key, value}; !c.known[at] {
			c.known[at] = true
			c.values[key] = append(c.values[key], value)
		}
	}
	for i := range types {
		t := &types[i]
		sold := &soldType{InstanceType: t, offerings: kube.SortedOfferings(t), allocatable: t.Allocatable()}
		several := len(c.several)
		for _, key := range kube.SortedKeys(t.Labels) {
			if len(t.Labels[key]) > 1 && !kube.SaidElsewhere(key) {
				c.several = append(c.several, key)
			}
			for _, value := range t.Labels[key] {
				note(key, value)
			}
		}
		if len(c.several) == several {
			sold.only = kube.Variants(t, nil)
		}
		note(corev1.LabelInstanceTypeStable, t.Name)
		for j := range t.Offerings {
			o := &t.Offerings[j]
			note(corev1.LabelTopologyZone, o.Zone)
			note(v1.CapacityTypeLabelKey, o.CapacityType)
			for _, key := range kube.SortedKeys(o.Labels) {
				note(key, o.Labels[key])
			}
		}
		c.types = append(c.types, sold)
	}
	slices.Sort(c.several)
	c.several = slices.Compact(c.several)
	slices.SortFunc(c.types, compareTypes)
	return c
}

// settledBy returns the labels that some type, or an offering of one, sets.
func settledBy(types []engine.InstanceType) map[string]bool {
	out := map[string]bool{corev1.LabelInstanceTypeStable: true, corev1.LabelTopologyZone: true, v1.CapacityTypeLabelKey: true}
	for i := range types {
		for key := range types[i].Labels {
			out[key] = true
		}
		for j := range types[i].Offerings {
			for key := range types[i].Offerings[j].Labels {
				out[key] = true
			}
		}
	}
	return out
}

func clonedAll(list []map[string]string) []map[string]string {
	out := make([]map[string]string, 0, len(list))
	for _, m := range list {
		out = append(out, maps.Clone(m))
	}
	return out
}
