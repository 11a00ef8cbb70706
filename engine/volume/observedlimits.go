package volume

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// AttachLimits holds the number of volumes of each driver that machines can attach, from catalogs and nodes.
type AttachLimits struct {
	// reported holds the limits that drivers report on nodes, by instance type and driver: the most frequent number, of equally frequent ones
	// the lowest.
	reported map[string]map[string]int
	// lowest holds the lowest of these numbers by driver. told is the same for types with a higher number in the catalog: there the driver was
	// configured with a number of volumes.
	lowest, told map[string]int
}

// LearnLimits reads the limits that drivers report. Reports of 0 do not count.
func LearnLimits(s *engine.Snapshot, types kube.TypeIndex) AttachLimits {
	l := AttachLimits{reported: map[string]map[string]int{}, lowest: map[string]int{}, told: map[string]int{}}
	if len(s.CSINodes) == 0 {
		return l
	}
	type report struct {
		kind, driver string
		count        int
	}
	pools, kinds, sold := kube.PoolsByName(s), make(map[string]string, len(s.Nodes)), map[string]map[*engine.InstanceType]bool{}
	for _, n := range s.Nodes {
		kind := n.Labels[corev1.LabelInstanceTypeStable]
		kinds[n.Name] = kind
		pool := pools[n.Labels[v1.NodePoolLabelKey]]
		if pool == nil {
			continue
		}
		if t := types.Find(pool.Spec.Template.Spec.NodeClassRef, pool.Name, kind); t != nil {
			if sold[kind] == nil {
				sold[kind] = map[*engine.InstanceType]bool{}
			}
			sold[kind][t] = true
		}
	}
	seen := map[report]int{}
	for _, n := range s.CSINodes {
		for _, d := range n.Spec.Drivers {
			if kind := kinds[n.Name]; kind != "" && d.Allocatable != nil && d.Allocatable.Count != nil && *d.Allocatable.Count > 0 {
				seen[report{kind, d.Name, int(*d.Allocatable.Count)}]++
			}
		}
	}
	for r, n := range seen {
		if l.reported[r.kind] == nil {
			l.reported[r.kind] = map[string]int{}
		}
		have := l.reported[r.kind][r.driver]
		if most := seen[report{r.kind, r.driver, have}]; cmp.Or(cmp.Compare(n, most), cmp.Compare(have, r.count)) > 0 {
			l.reported[r.kind][r.driver] = r.count
		}
	}
	for kind, counts := range l.reported {
		for driver, count := range counts {
			keepLower(l.lowest, driver, count)
			if isTold(sold[kind], driver, count) {
				keepLower(l.told, driver, count)
			}
		}
	}
	return l
}

// isTold reports whether the driver would report more on nodes of these types without configuration. Other attached devices can also lower its
// number, by as much as AttachShared.
func isTold(types map[*engine.InstanceType]bool, driver string, count int) bool {
	known := false
	for t := range types {
		limit, ok := t.AttachLimits[driver]
		if ok && count >= limit-t.AttachShared[driver] {
			return false
		}
		known = known || ok
	}
	return known
}

func keepLower(list map[string]int, driver string, count int) {
	if have, ok := list[driver]; !ok || count < have {
		list[driver] = count
	}
}

// `of` returns the number of the driver's volumes that a machine of the type can attach. It returns false if there is no limit. The report of the
// type's nodes comes first, then the catalog's number, or the configured one if lower. A driver without either gets its lowest reported limit of
// other types.
func (l *AttachLimits) of(t *engine.InstanceType, driver string) (int, bool) {
	if n, ok := l.reported[t.Name][driver]; ok {
		return n, true
	}
	n, ok := t.AttachLimits[driver]
	if !ok {
		n, ok = l.lowest[driver]
		return n, ok
	}
	if told, ok := l.told[driver]; ok {
		n = min(n, told)
	}
	return n, true
}

// All returns the limits of all drivers with a limit. It returns nil for no type.
func (l *AttachLimits) All(t *engine.InstanceType) map[string]int {
	if t == nil {
		return nil
	}
	out := maps.Clone(l.lowest)
	if out == nil {
		out = map[string]int{}
	}
	maps.Copy(out, t.AttachLimits)
	for driver := range out {
		out[driver], _ = l.of(t, driver)
	}
	return out
}

// On returns a node's limits by driver, from its CSINode, which may be nil; a driver without a number has no limit. expected, nil for none,
// provides the limits of drivers that a starting node has not reported yet.
func (l *AttachLimits) On(csi *storagev1.CSINode, expected *engine.InstanceType) map[string]int {
	limits := map[string]int{}
	maps.Copy(limits, l.All(expected))
	if csi == nil {
		return limits
	}
	for _, d := range csi.Spec.Drivers {
		delete(limits, d.Name)
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			limits[d.Name] = int(*d.Allocatable.Count)
		}
	}
	return limits
}

// In returns the classes with these limits in their catalogs, for a plan without the nodes that report them.
func (l *AttachLimits) In(classes []engine.Class) []engine.Class {
	if len(l.reported) == 0 {
		return classes
	}
	out := slices.Clone(classes)
	for i := range out {
		out[i].InstanceTypes = slices.Clone(out[i].InstanceTypes)
		for j := range out[i].InstanceTypes {
			t := &out[i].InstanceTypes[j]
			t.AttachLimits = l.All(t)
		}
	}
	return out
}
