package inventory

import (
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// OpenLabels holds the facts about a machine that has been requested and not yet launched: it may be of any listed type, in any listed zone.
type OpenLabels struct {
	Claim *v1.NodeClaim
	Types []*engine.InstanceType
	// offered are the labels of the offerings that the claim allows. If none of these is available, `offered` has the labels of the sold-out ones;
	// otherwise it leaves out sold-out ones.
	offered []map[string]string
	// least and most are, of each resource, the smallest allocatable and the largest capacity of the listed types.
	least, most corev1.ResourceList
}

func newOpenLabels(c *v1.NodeClaim, types kube.TypeIndex) *OpenLabels {
	o := &OpenLabels{Claim: c}
	for _, r := range c.Spec.Requirements {
		if r.Key != corev1.LabelInstanceTypeStable || r.Operator != v1.In {
			continue
		}
		for _, name := range r.Values {
			if t := types.Find(c.Spec.NodeClassRef, c.Labels[v1.NodePoolLabelKey], name); t != nil {
				o.Types = append(o.Types, t)
			}
		}
	}
	for i, t := range o.Types {
		allocatable := t.Allocatable()
		if i == 0 {
			o.least, o.most = allocatable, t.Capacity.DeepCopy()
			continue
		}
		for name, q := range o.least {
			if other, ok := allocatable[name]; !ok {
				delete(o.least, name)
			} else if other.Cmp(q) < 0 {
				o.least[name] = other
			}
		}
		kube.MaxList(o.most, t.Capacity)
	}
	o.listOfferings()
	if len(o.Types) == 0 {
		o.least, o.most = c.Spec.Resources.Requests, c.Spec.Resources.Requests
	}
	return o
}

func (o *OpenLabels) listOfferings() {
	var soldOut []map[string]string
	taints := v1.CoreTaints(o.Claim.Spec.Taints)
	for _, t := range o.Types {
		for i := range t.Offerings {
			offering := &t.Offerings[i]
			switch {
			case !kube.AllowsValue(o.Claim.Spec.Requirements, corev1.LabelTopologyZone, offering.Zone),
				!kube.AllowsValue(o.Claim.Spec.Requirements, v1.CapacityTypeLabelKey, offering.CapacityType),
				!kube.HasTaints(taints, offering.Taints):
			case offering.SoldOut:
				soldOut = append(soldOut, kube.OfferingLabels(offering))
			default:
				o.offered = append(o.offered, kube.OfferingLabels(offering))
			}
		}
	}
	if len(o.offered) == 0 {
		o.offered = soldOut // it was bought before
	}
}

// Set returns the values that the key may get.
func (o *OpenLabels) Set(u *requirement.Universe, k int) bitset.Set {
	key := u.Name(k)
	set := u.Any(k)
	narrowed := false
	for _, r := range o.Claim.Spec.Requirements {
		if e := kube.PoolExpression(r); e.Key == key {
			set.And(u.Set(e))
			narrowed = true
		}
	}
	fromTypes := bitset.New(u.Size(k))
	known := false
	for _, t := range o.Types {
		values, ok := t.Labels[key]
		known = known || ok
		for _, v := range values {
			fromTypes.Add(u.Bit(k, v))
		}
		if len(values) == 0 {
			fromTypes.Add(requirement.Absent)
		}
	}
	if named, all := o.fromOfferings(u, k); !named.Empty() {
		if !known {
			fromTypes = u.Missing(k)
		}
		if all {
			fromTypes = named
		} else {
			fromTypes.Or(named)
		}
		known = true
	}
	switch {
	case known:
		set.And(fromTypes)
	case !narrowed:
		return u.Missing(k)
	}
	return set
}

// fromOfferings returns the values that offerings give the key; all is true if every offering gives it one.
func (o *OpenLabels) fromOfferings(u *requirement.Universe, k int) (set bitset.Set, all bool) {
	set, all = bitset.New(u.Size(k)), true
	for _, labels := range o.offered {
		value, ok := labels[u.Name(k)]
		if ok {
			set.Add(u.Bit(k, value))
		}
		all = all && ok
	}
	return set, all
}
