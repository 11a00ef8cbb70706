package oracle

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// standIn returns the node of a launch, in random clusters, without the engine.
func standIn(p *v1.NodePool, l *engine.Launch, t *engine.InstanceType, o engine.Offering) (*corev1.Node, *storagev1.CSINode) {
	n := &corev1.Node{}
	n.Name = l.Name
	n.Labels = machineLabels(p, t, o)
	maps.Copy(n.Labels, l.Labels)
	n.Labels[v1.RegisteredLabelKey], n.Labels[v1.InitializedLabelKey] = "true", "true"
	n.Spec.Taints = v1.CoreTaints(p.Spec.Template.Spec.Taints)
	n.Status.Capacity, n.Status.Allocatable = t.Capacity, t.Allocatable()
	n.Status.DeclaredFeatures = []string{restartFeature}
	c := &storagev1.CSINode{}
	c.Name = l.Name
	for _, driver := range slices.Sorted(maps.Keys(t.AttachLimits)) {
		c.Spec.Drivers = append(c.Spec.Drivers, storagev1.CSINodeDriver{
			Name: driver, NodeID: l.Name, Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(int32(t.AttachLimits[driver]))},
		})
	}
	return n, c
}
