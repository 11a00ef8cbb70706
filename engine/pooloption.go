package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/requirement"
)

// poolOption names an option of the packing problem: an offering of a type, in one of the type's variants.
type poolOption struct {
	kind     *InstanceType
	offering *Offering
	variant  map[string]string // one value for each of the type's labels
}

func (o *poolOption) id() OfferingID {
	return OfferingID{o.kind.Name, o.offering.Zone, o.offering.CapacityType, o.offering.Reservation}
}

// label is the value that a machine of this option has for a settled key.
func (o *poolOption) label(key string) (value string, there bool) {
	switch key {
	case corev1.LabelTopologyZone:
		return o.offering.Zone, true
	case v1.CapacityTypeLabelKey:
		return o.offering.CapacityType, true
	}
	if value, there = o.offering.Labels[key]; there {
		return value, true
	}
	value, there = o.variant[key]
	return value, there
}

func offeringLabels(o *Offering) map[string]string {
	labels := map[string]string{corev1.LabelTopologyZone: o.Zone, v1.CapacityTypeLabelKey: o.CapacityType}
	for key, value := range o.Labels {
		labels[key] = value
	}
	return labels
}

// osRank prefers Linux between equals: pods that name no system are made for it.
func osRank(t *InstanceType) int {
	if slices.Contains(t.Labels[corev1.LabelOSStable], "linux") {
		return 0
	}
	return 1
}

// sizeOf is what pods can use of a machine of the type: what the catalog says (size, which it changes), or what running
// machines have taught.
func (m *poolModel) sizeOf(p *problem, t *InstanceType, size capacity.Vector) capacity.Vector {
	if known := p.learned[t]; known != nil {
		memory := p.names.Find(string(corev1.ResourceMemory))
		size[memory] = amount(corev1.ResourceMemory, *known)
	}
	if pods := p.names.Find(string(corev1.ResourcePods)); p.opt.MaxPodsPerNode > 0 {
		size[pods] = min(size[pods], int64(p.opt.MaxPodsPerNode))
	}
	for driver, d := range p.names.drivers() {
		size[d] = p.wishes.volumes.freeOn(t, driver)
	}
	return size
}

// sortedOfferings orders a type's offerings by price, then by name.
func sortedOfferings(kind *InstanceType) []*Offering {
	out := make([]*Offering, 0, len(kind.Offerings))
	for i := range kind.Offerings {
		out = append(out, &kind.Offerings[i])
	}
	slices.SortFunc(out, func(a, b *Offering) int {
		return cmp.Or(
			cmp.Compare(a.Price, b.Price), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType),
			cmp.Compare(labelText(a.Labels), labelText(b.Labels)))
	})
	return out
}

// variants lists the ways in which a type can turn out: one value for each label. Where a label can have several values
// and nothing in the problem tells them apart, the first is taken.
func variants(kind *InstanceType, u *requirement.Universe) []map[string]string {
	out := []map[string]string{{corev1.LabelInstanceTypeStable: kind.Name}}
	for _, key := range sortedKeys(kind.Labels) {
		values := kind.Labels[key]
		if len(values) == 0 || saidElsewhere(key) {
			continue
		}
		if len(values) > 1 && u.Key(key) < 0 {
			values = values[:1]
		}
		out = multiplied(out, key, values)
	}
	return out
}

// saidElsewhere reports whether a label follows from the type's name or from the offering.
func saidElsewhere(key string) bool {
	return key == corev1.LabelTopologyZone || key == v1.CapacityTypeLabelKey || key == corev1.LabelInstanceTypeStable
}

// mostVariants bounds the variants of a type; no real catalog comes near it.
const mostVariants = 64

func multiplied(variants []map[string]string, key string, values []string) []map[string]string {
	if len(values) == 1 {
		for _, v := range variants {
			v[key] = values[0]
		}
		return variants
	}
	var out []map[string]string
	for _, value := range values {
		for _, v := range variants {
			if len(out) == mostVariants {
				return out
			}
			clone := make(map[string]string, len(v)+1)
			for k, x := range v {
				clone[k] = x
			}
			clone[key] = value
			out = append(out, clone)
		}
	}
	return out
}

// severalValued lists the labels for which a machine of the type can have one of several values.
func severalValued(kind *InstanceType) []string {
	var keys []string
	for key, values := range kind.Labels {
		if len(values) > 1 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func labelText(labels map[string]string) string {
	var b strings.Builder
	for _, key := range sortedKeys(labels) {
		fmt.Fprintf(&b, "%s=%s,", key, labels[key])
	}
	return b.String()
}
