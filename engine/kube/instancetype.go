package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/requirement"
)

func OfferingLabels(o *engine.Offering) map[string]string {
	labels := map[string]string{corev1.LabelTopologyZone: o.Zone, v1.CapacityTypeLabelKey: o.CapacityType}
	for key, value := range o.Labels {
		labels[key] = value
	}
	return labels
}

// OSRank returns the rank of a type's operating system. Linux is first, because pods without an operating system are for Linux.
func OSRank(t *engine.InstanceType) int {
	if slices.Contains(t.Labels[corev1.LabelOSStable], "linux") {
		return 0
	}
	return 1
}

// SortedOfferings orders a type's offerings by price, then by name.
func SortedOfferings(kind *engine.InstanceType) []*engine.Offering {
	out := make([]*engine.Offering, 0, len(kind.Offerings))
	for i := range kind.Offerings {
		out = append(out, &kind.Offerings[i])
	}
	slices.SortFunc(out, func(a, b *engine.Offering) int {
		if n := cmp.Or(cmp.Compare(a.NodePrice(0), b.NodePrice(0)), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType)); n != 0 {
			return n
		}
		return cmp.Compare(LabelText(a.Labels), LabelText(b.Labels))
	})
	return out
}

// Variants lists the possible machines of a type, as one value for each label. If the problem does not distinguish a label's values, the first
// one is taken.
func Variants(kind *engine.InstanceType, u *requirement.Universe) []map[string]string {
	out := []map[string]string{{corev1.LabelInstanceTypeStable: kind.Name}}
	for _, key := range SortedKeys(kind.Labels) {
		values := kind.Labels[key]
		if len(values) == 0 || SaidElsewhere(key) {
			continue
		}
		if len(values) > 1 && u.Key(key) < 0 {
			values = values[:1]
		}
		out = Multiplied(out, key, values)
	}
	return out
}

// SaidElsewhere reports whether a label follows from the type's name or from the offering.
func SaidElsewhere(key string) bool {
	return key == corev1.LabelTopologyZone || key == v1.CapacityTypeLabelKey || key == corev1.LabelInstanceTypeStable
}

// mostVariants bounds the variants of a type; no real catalog comes near it.
const mostVariants = 64

func Multiplied(variants []map[string]string, key string, values []string) []map[string]string {
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

// SeveralValued lists the labels for which a machine of the type can have one of several values.
func SeveralValued(kind *engine.InstanceType) []string {
	var keys []string
	for key, values := range kind.Labels {
		if len(values) > 1 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func LabelText(labels map[string]string) string {
	var b strings.Builder
	for _, key := range SortedKeys(labels) {
		fmt.Fprintf(&b, "%s=%s,", key, labels[key])
	}
	return b.String()
}

// PinnedLabels returns the labels for which the requirements allow one value only.
func PinnedLabels(requirements []v1.Requirement) map[string]string {
	labels := map[string]string{}
	for _, r := range requirements {
		if r.Operator == v1.In && len(r.Values) == 1 {
			labels[v1.NormalizeLabel(r.Key)] = v1.NormalizeValues(r.Key, r.Values)[0]
		}
	}
	return labels
}

// Listed returns the values that the requirements list for a key, in their order.
func Listed(requirements []v1.Requirement, key string) []string {
	for _, r := range requirements {
		if r.Operator == v1.In && v1.NormalizeLabel(r.Key) == key {
			return v1.NormalizeValues(r.Key, r.Values)
		}
	}
	return nil
}

func AllowsValue(requirements []v1.Requirement, key, value string) bool {
	return !slices.ContainsFunc(requirements, func(r v1.Requirement) bool {
		e := PoolExpression(r)
		return e.Key == key && !e.Admits(value, true)
	})
}

func FindPool(s *engine.Snapshot, name string) *v1.NodePool {
	for _, p := range s.NodePools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

func VolumeTerms(pv *corev1.PersistentVolume) []corev1.NodeSelectorTerm {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	return pv.Spec.NodeAffinity.Required.NodeSelectorTerms
}

// TypeIndex finds instance types by class, pool and name.
type TypeIndex map[soldTo]map[string]*engine.InstanceType

// soldTo is a class and a pool with corrected types of the class; an empty pool means all other pools.
type soldTo struct {
	class v1.NodeClassReference
	pool  string
}

func NewTypeIndex(s *engine.Snapshot) TypeIndex {
	out := TypeIndex{}
	for i := range s.Classes {
		c := &s.Classes[i]
		types := make(map[string]*engine.InstanceType, len(c.InstanceTypes))
		if len(c.Pools) == 0 {
			if known := out[soldTo{class: c.Ref}]; known != nil {
				types = known
			}
			out[soldTo{class: c.Ref}] = types
		}
		for _, pool := range c.Pools {
			out[soldTo{c.Ref, pool}], out[soldTo{pool: pool}] = types, types
		}
		for j := range c.InstanceTypes {
			types[c.InstanceTypes[j].Name] = &c.InstanceTypes[j]
		}
	}
	return out
}

// Find returns the type with the name, as the pool can buy it. It returns nil if the class does not list the type.
func (x TypeIndex) Find(class *v1.NodeClassReference, pool, name string) *engine.InstanceType {
	return x.Of(class, pool)[name]
}

// Of returns the types of a class by name, as the pool can buy them. It returns nil if the class is unknown. With a nil class, it returns the types
// that NodeOverlays correct for the pool, if any.
func (x TypeIndex) Of(class *v1.NodeClassReference, pool string) map[string]*engine.InstanceType {
	if class == nil {
		return x[soldTo{pool: pool}]
	}
	if types, corrected := x[soldTo{*class, pool}]; corrected {
		return types
	}
	return x[soldTo{class: *class}]
}

// LimitedDrivers returns the drivers with an attach limit on some type, sorted.
func LimitedDrivers(s *engine.Snapshot) []string {
	drivers := map[string]bool{}
	for i := range s.Classes {
		for j := range s.Classes[i].InstanceTypes {
			for driver := range s.Classes[i].InstanceTypes[j].AttachLimits {
				drivers[driver] = true
			}
		}
	}
	return SortedKeys(drivers)
}
