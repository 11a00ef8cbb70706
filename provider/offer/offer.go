// Package offer finds the offerings that a launch may buy: the offerings of a catalog that a claim's requirements allow and that are large enough
// for the claim. Each cloud's provider chooses one of them and buys it.
package offer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// Offer is an offering that meets a claim's requirements.
type Offer struct {
	engine.OfferingID
	Type  *engine.InstanceType
	Price float64
	// SoldOut is true if the catalog marks the offering as sold out, or if its reservation has no room left.
	SoldOut bool
	// Labels are the labels of a machine of this offering. Offers share the map, so callers must copy it before they change it.
	Labels map[string]string
}

// For lists the offerings of a catalog that a claim's requirements allow and that are large enough for its requests. They are sorted by
// price, then by type and zone. Requirements on labels that the catalog does not have are ignored.
func For(types []engine.InstanceType, claim *v1.NodeClaim) ([]Offer, error) {
	w := NewWanted(claim.Spec.Requirements)
	if err := knownTypes(types, w); err != nil {
		return nil, err
	}
	offeringKeys := map[string]bool{}
	for _, t := range types {
		for _, o := range t.Offerings {
			for key := range o.Labels {
				offeringKeys[key] = true
			}
		}
	}
	list, tooSmall, taints := []Offer{}, "", v1.CoreTaints(claim.Spec.Taints)
	for i := range types {
		t := &types[i]
		if !w.Allows(corev1.LabelInstanceTypeStable, t.Name) {
			continue
		}
		labels, ok := w.labelsOf(t)
		if !ok {
			continue
		}
		if what := lacks(t, claim.Spec.Resources.Requests); what != "" {
			tooSmall = cmp.Or(tooSmall, what)
			continue
		}
		list = append(list, w.offeringsOf(t, labels, offeringKeys, taints)...)
	}
	if len(list) == 0 && tooSmall != "" {
		return nil, fmt.Errorf("no instance type that the requirements allow is large enough: %s", tooSmall)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no offering of the catalog meets the requirements")
	}
	slices.SortFunc(list, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.InstanceType, b.InstanceType),
			cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Reservation, b.Reservation))
	})
	return list, nil
}

// knownTypes returns an error if a requirement names instance types and the catalog has none of them.
func knownTypes(types []engine.InstanceType, w Wanted) error {
	for _, r := range w[corev1.LabelInstanceTypeStable] {
		if r.Operator != v1.In {
			continue
		}
		known := func(t engine.InstanceType) bool { return slices.Contains(r.Values, t.Name) }
		if !slices.ContainsFunc(types, known) {
			return fmt.Errorf("the catalog has no instance type of the name %q", r.Values)
		}
	}
	return nil
}

// labelsOf chooses the labels of a machine of a type: the first allowed value of each label.
func (w Wanted) labelsOf(t *engine.InstanceType) (map[string]string, bool) {
	labels := map[string]string{}
	for key, values := range t.Labels {
		if len(values) == 0 {
			if !w.allowsNone(key) {
				return nil, false
			}
			continue
		}
		i := slices.IndexFunc(values, func(v string) bool { return w.Allows(key, v) })
		if i < 0 {
			return nil, false
		}
		labels[key] = values[i]
	}
	return labels, true
}

func (w Wanted) offeringsOf(t *engine.InstanceType, labels map[string]string, offeringKeys map[string]bool, taints []corev1.Taint) []Offer {
	list := []Offer{}
	for _, o := range t.Offerings {
		if !w.Allows(corev1.LabelTopologyZone, o.Zone) || !w.Allows(v1.CapacityTypeLabelKey, o.CapacityType) || !w.meets(o, offeringKeys) || !kube.HasTaints(taints, o.Taints) {
			continue
		}
		all := labels // shared: a caller that starts a machine copies the labels
		if len(o.Labels) > 0 {
			all = maps.Clone(labels)
			maps.Copy(all, o.Labels)
		}
		list = append(list, Offer{
			OfferingID: engine.OfferingID{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: o.Reservation},
			Type:       t, Price: o.NodePrice(0), SoldOut: o.SoldOut || o.Reservation != "" && o.Slots <= 0, Labels: all,
		})
	}
	return list
}

// meets reports whether an offering's own labels meet the requirements. A label of other offerings that it lacks counts as absent.
func (w Wanted) meets(o engine.Offering, offeringKeys map[string]bool) bool {
	for key := range offeringKeys {
		value, has := o.Labels[key]
		if has && !w.Allows(key, value) || !has && !w.allowsNone(key) {
			return false
		}
	}
	return true
}

// lacks describes the first resource that a type has too little of, "" if the type is large enough for the requests.
func lacks(t *engine.InstanceType, requests corev1.ResourceList) string {
	allocatable := t.Allocatable()
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		want, has := requests[name], allocatable[name]
		if want.Cmp(has) > 0 {
			return fmt.Sprintf("%s has %s %s of the %s that are asked for", t.Name, has.String(), name, want.String())
		}
	}
	return ""
}
