package offering

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

// compareTypes orders types by price, size, operating system and structure, and equal ones by name.
func compareTypes(a, b *soldType) int {
	least := func(t *soldType) float64 {
		if len(t.offerings) == 0 {
			return 0
		}
		return t.offerings[0].NodePrice(0)
	}
	if n := cmp.Compare(least(a), least(b)); n != 0 {
		return n
	}
	size := func(t *soldType, r corev1.ResourceName) int64 { return kube.Amount(r, t.Capacity[r]) }
	if n := cmp.Or(
		cmp.Compare(size(a, corev1.ResourceCPU), size(b, corev1.ResourceCPU)),
		cmp.Compare(size(a, corev1.ResourceMemory), size(b, corev1.ResourceMemory)),
		cmp.Compare(kube.OSRank(a.InstanceType), kube.OSRank(b.InstanceType)),
	); n != 0 {
		return n
	}
	return cmp.Or(cmp.Compare(a.structure(), b.structure()), cmp.Compare(a.Name, b.Name))
}

// structure describes everything of a type except its name.
func (t *soldType) structure() string {
	if t.text != "" {
		return t.text
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s", kube.ListText(t.Capacity), kube.ListText(t.Overhead))
	for _, key := range kube.SortedKeys(t.Labels) {
		fmt.Fprintf(&b, "\n%s %q", key, t.Labels[key])
	}
	for _, driver := range kube.SortedKeys(t.AttachLimits) {
		fmt.Fprintf(&b, "\n%s %d", driver, t.AttachLimits[driver])
	}
	for i := range t.Claimable {
		fmt.Fprintf(&b, "\n%s", t.Claimable[i].Driver)
		for j := range t.Claimable[i].Devices {
			fmt.Fprintf(&b, " %s", t.Claimable[i].Devices[j].Shape.Key())
		}
	}
	for _, o := range t.offerings {
		fmt.Fprintf(&b, "\n%g %s %s %t %d", o.NodePrice(0), o.Zone, o.CapacityType, o.SoldOut, o.Slots)
		for _, u := range o.Quotas {
			fmt.Fprintf(&b, " %d", u.Units)
		}
	}
	t.text = b.String()
	return t.text
}

// comparePools orders pools by weight, heaviest first, then by structure, then by name. At equal weight, pools for Windows only come last,
// because most pods without an operating system are for Linux.
func comparePools(a, b *Pool) int {
	if n := cmp.Compare(b.weight(), a.weight()); n != 0 {
		return n
	}
	if a.windows != b.windows {
		if a.windows {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(poolStructure(a), poolStructure(b)), cmp.Compare(a.NodePool.Name, b.NodePool.Name))
}

func poolStructure(p *Pool) string {
	var b strings.Builder
	spec := &p.NodePool.Spec.Template.Spec
	for _, r := range spec.Requirements {
		values := slices.Clone(r.Values)
		slices.Sort(values)
		fmt.Fprintf(&b, "%s %s %q %d\n", v1.NormalizeLabel(r.Key), r.Operator, values, minValuesOf(r))
	}
	fmt.Fprintf(&b, "%v\n%s\n%s\n", p.Taints, kube.ListText(corev1.ResourceList(p.NodePool.Spec.Limits)), kube.ListText(p.used))
	for _, key := range kube.SortedKeys(p.NodePool.Spec.Template.Labels) {
		fmt.Fprintf(&b, "%s=%s\n", key, p.NodePool.Spec.Template.Labels[key])
	}
	return b.String()
}

func minValuesOf(r v1.Requirement) int {
	if r.MinValues == nil {
		return 0
	}
	return *r.MinValues
}
