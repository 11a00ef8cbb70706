package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// This file writes down what things are apart from their names, so that ties are broken by structure first: a cluster in
// which everything has another name gets the same plan under these names.

// structure is what a pod with this wish asks for.
func (w *wish) structure() string {
	if w.shape != "" {
		return w.shape
	}
	var b strings.Builder
	b.WriteString(w.demand.text())
	for i := range w.spreads {
		fmt.Fprintf(&b, "\nspread %s %t %t", w.spreads[i].text, w.spreads[i].affinity, w.spreads[i].taints)
	}
	for _, t := range w.affinity {
		b.WriteString("\nnear " + t.key)
	}
	for _, t := range w.anti {
		b.WriteString("\napart " + t.key)
	}
	for i := range w.soft {
		s := &w.soft[i]
		fmt.Fprintf(&b, "\nsoft %d %t %t", s.weight, s.tolerate, s.ofOthers)
		switch {
		case s.near != nil:
			b.WriteString(" near " + s.near.key)
		case s.apart != nil:
			b.WriteString(" apart " + s.apart.key)
		case s.spread != nil:
			b.WriteString(" spread " + s.spread.text)
		}
	}
	for _, p := range w.ports {
		b.WriteString("\nport " + portText(p))
	}
	fmt.Fprintf(&b, "\n%d %d %d", len(w.volumes.Attach), len(w.volumes.Once), len(w.volumes.Disks))
	w.shape = b.String()
	return w.shape
}

// domains is the largest number of domains that one of the hard spreads asks for.
func (w *wish) domains() int {
	most := 0
	for i := range w.spreads {
		most = max(most, w.spreads[i].minDomains)
	}
	return most
}

// compareTypes orders types by size and price first, then by whatever else they are, and by name between equals.
func compareTypes(a, b *InstanceType) int {
	least := func(t *InstanceType) float64 {
		p := 0.0
		for i, o := range t.Offerings {
			if i == 0 || o.Price < p {
				p = o.Price
			}
		}
		return p
	}
	size := func(t *InstanceType, r corev1.ResourceName) int64 { return amount(r, t.Capacity[r]) }
	if n := cmp.Or(
		cmp.Compare(least(a), least(b)),
		cmp.Compare(size(a, corev1.ResourceCPU), size(b, corev1.ResourceCPU)),
		cmp.Compare(size(a, corev1.ResourceMemory), size(b, corev1.ResourceMemory)),
		cmp.Compare(osRank(a), osRank(b)),
	); n != 0 {
		return n
	}
	return cmp.Or(cmp.Compare(typeStructure(a), typeStructure(b)), cmp.Compare(a.Name, b.Name))
}

func typeStructure(t *InstanceType) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s", listText(t.Capacity), listText(t.Overhead))
	for _, key := range sortedKeys(t.Labels) {
		fmt.Fprintf(&b, "\n%s %q", key, t.Labels[key])
	}
	for _, driver := range sortedKeys(t.AttachLimits) {
		fmt.Fprintf(&b, "\n%s %d", driver, t.AttachLimits[driver])
	}
	for _, o := range sortedOfferings(t) {
		fmt.Fprintf(&b, "\n%g %s %s %t %d", o.Price, o.Zone, o.CapacityType, o.SoldOut, o.Slots)
	}
	return b.String()
}

// comparePools orders pools by weight, heaviest first, then by what they allow, and by name between equals. Those of Windows alone
// come last among equal weights: most pods that do not say their system are for Linux.
func comparePools(a, b *poolModel) int {
	if n := cmp.Compare(b.weight(), a.weight()); n != 0 {
		return n
	}
	if a.windows != b.windows {
		if a.windows {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(poolStructure(a), poolStructure(b)), cmp.Compare(a.pool.Name, b.pool.Name))
}

func poolStructure(m *poolModel) string {
	var b strings.Builder
	spec := &m.pool.Spec.Template.Spec
	for _, r := range spec.Requirements {
		values := slices.Clone(r.Values)
		slices.Sort(values)
		fmt.Fprintf(&b, "%s %s %q %d\n", v1.NormalizeLabel(r.Key), r.Operator, values, minValuesOf(r))
	}
	fmt.Fprintf(&b, "%v\n%s\n%s\n", m.taints, listText(corev1.ResourceList(m.pool.Spec.Limits)), listText(m.used))
	for _, key := range sortedKeys(m.pool.Spec.Template.Labels) {
		fmt.Fprintf(&b, "%s=%s\n", key, m.pool.Spec.Template.Labels[key])
	}
	return b.String()
}

func minValuesOf(r v1.Requirement) int {
	if r.MinValues == nil {
		return 0
	}
	return *r.MinValues
}
