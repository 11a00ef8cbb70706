package workload

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/catalog"
)

// Flexible returns a cluster without nodes, with pending pods of a few workloads and sometimes constraints of all kinds, for all of EC2's
// types. keys is the number of keys in the pool's requirements with several values (minValues), at most 4; 0 for none. The pods and the other
// parts of the requirements do not depend on keys.
func Flexible(pods int, seed uint64, keys int) *engine.Snapshot {
	d := &dice{rand.New(rand.NewPCG(seed, 0xf1))}
	s := newSnapshot(catalog.AWS(), d.flexibility(keys))
	for len(s.Pods) < pods {
		shape := d.constrained(string(rune('a' + len(s.Pods)%26)))
		for range min(1+d.IntN(12), pods-len(s.Pods)) {
			name := numbered("flexible", len(s.Pods))
			s.Pods = append(s.Pods, shape.pod(name, name))
		}
	}
	return s
}

// flexibility returns the requirements of common tutorials: several categories, families, zones and types.
func (d *dice) flexibility(keys int) []v1.Requirement {
	all := []v1.Requirement{
		{Key: awsv1.CategoryLabelKey, Operator: v1.In, Values: []string{"c", "m", "r"}},
		{Key: awsv1.FamilyLabelKey, Operator: v1.Exists},
		{Key: corev1.LabelInstanceTypeStable, Operator: v1.Exists},
		{Key: corev1.LabelTopologyZone, Operator: v1.In, Values: []string{"us-east-1a", "us-east-1b", "us-east-1c"}},
	}
	most := []int{3, 10, 50, 3}
	for _, i := range d.Perm(len(all)) {
		asked := 2 + d.IntN(most[i]-1)
		if keys--; keys >= 0 {
			all[i].MinValues = &asked
		}
	}
	capacity := [][]string{{v1.CapacityTypeOnDemand}, {v1.CapacityTypeSpot}, {v1.CapacityTypeSpot, v1.CapacityTypeOnDemand}}[d.IntN(3)]
	return append(all, v1.Requirement{Key: v1.CapacityTypeLabelKey, Operator: v1.In, Values: capacity})
}

// constrained returns a workload with one of the usual constraints, hard or soft, or with none.
func (d *dice) constrained(name string) shape {
	s := d.shape("app", name)
	own := selecting("app", name)
	zone := spreadOver(corev1.LabelTopologyZone, 1, own)
	switch d.IntN(8) {
	case 0:
		s.spread = zone
	case 1:
		zone[0].WhenUnsatisfiable = corev1.ScheduleAnyway
		s.spread = zone
	case 2:
		s.spread = spreadOver(corev1.LabelHostname, 1, own)
	case 3:
		s.affinity = apartOn(corev1.LabelHostname, own)
	case 4:
		s.affinity = preferring(corev1.LabelArchStable, v1.ArchitectureARM64)
	case 5:
		s.affinity = preferring(corev1.LabelTopologyZone, "us-east-1b")
	}
	return s
}

// preferring returns a preference for nodes with the label.
func preferring(key, value string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
		Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
		}}},
	}}}}
}
