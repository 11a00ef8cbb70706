package engine

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// attachLimits says how many volumes machines take of which driver, by type: what a catalog says, and where it says nothing,
// what drivers report on nodes of the same type. What neither knows has no limit.
type attachLimits map[string]map[string]int

// learnLimits reads what drivers report: of each type the number that most nodes have, of several the lowest. A node on which
// no volume has room at all says nothing of others.
func learnLimits(s *Snapshot) attachLimits {
	type report struct {
		kind, driver string
		count        int
	}
	kinds := make(map[string]string, len(s.Nodes))
	for _, n := range s.Nodes {
		kinds[n.Name] = n.Labels[corev1.LabelInstanceTypeStable]
	}
	seen := map[report]int{}
	for _, n := range s.CSINodes {
		for _, d := range n.Spec.Drivers {
			if kind := kinds[n.Name]; kind != "" && d.Allocatable != nil && d.Allocatable.Count != nil && *d.Allocatable.Count > 0 {
				seen[report{kind, d.Name, int(*d.Allocatable.Count)}]++
			}
		}
	}
	out := attachLimits{}
	for r, n := range seen {
		if out[r.kind] == nil {
			out[r.kind] = map[string]int{}
		}
		have := out[r.kind][r.driver]
		if most := seen[report{r.kind, r.driver, have}]; cmp.Or(cmp.Compare(n, most), cmp.Compare(have, r.count)) > 0 {
			out[r.kind][r.driver] = r.count
		}
	}
	return out
}

// of is, by driver, how many volumes a machine of the type takes; nil for no type.
func (l attachLimits) of(t *InstanceType) map[string]int {
	if t == nil {
		return nil
	}
	learned := l[t.Name]
	if len(learned) == 0 {
		return t.AttachLimits
	}
	out := maps.Clone(learned)
	maps.Copy(out, t.AttachLimits)
	return out
}
