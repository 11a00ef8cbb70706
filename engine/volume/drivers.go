package volume

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// DriversSeen maps the storage drivers of the cluster's nodes to their topology keys.
func DriversSeen(s *engine.Snapshot) map[string][]string {
	out := map[string][]string{}
	for _, n := range s.CSINodes {
		for _, d := range n.Spec.Drivers {
			keys := append(out[d.Name], d.TopologyKeys...)
			slices.Sort(keys)
			out[d.Name] = slices.Compact(keys)
		}
	}
	return out
}

// TopologySources maps each label in the topology of storage to the node label with the same values: an older name to its current one, or a
// driver's key to the zone, hostname or region label that equals it on all nodes. Labels without such a source are left out.
func TopologySources(s *engine.Snapshot, drivers map[string][]string) map[string]string {
	out := map[string]string{}
	for _, keys := range drivers {
		for _, key := range keys {
			if source := repeats(s, key); source != "" {
				out[key] = source
			}
		}
	}
	for _, pv := range s.PersistentVolumes {
		for _, term := range kube.VolumeTerms(pv) {
			for _, e := range term.MatchExpressions {
				if v1.NormalizeLabel(e.Key) != e.Key {
					out[e.Key] = v1.NormalizeLabel(e.Key)
				}
			}
		}
	}
	for _, class := range s.StorageClasses {
		for _, term := range class.AllowedTopologies {
			for _, e := range term.MatchLabelExpressions {
				if v1.NormalizeLabel(e.Key) != e.Key {
					out[e.Key] = v1.NormalizeLabel(e.Key)
				}
			}
		}
	}
	return out
}

func repeats(s *engine.Snapshot, key string) string {
	if current := v1.NormalizeLabel(key); current != key {
		return current
	}
	for _, source := range []string{corev1.LabelTopologyZone, corev1.LabelHostname, corev1.LabelTopologyRegion} {
		seen, same := false, true
		for _, n := range s.Nodes {
			if value, ok := n.Labels[key]; ok {
				seen, same = true, same && value == n.Labels[source]
			}
		}
		if seen && same && key != source {
			return source
		}
	}
	return ""
}
