package scenario

import (
	"maps"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// addCSINode adds the CSINode of a node, with the limits of the statement. If the statement has no limits, the node has the limits of its type. A node
// that is still starting has no drivers.
func (b *builder) addCSINode(m machineLine, ofType map[string]int) {
	limits := m.attach
	if limits == nil && !m.uninitialized {
		limits = ofType
	}
	if limits == nil {
		return
	}
	c := &storagev1.CSINode{
		TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSINode"}, ObjectMeta: b.meta("", m.name),
	}
	c.CreationTimestamp = b.ago(m.age)
	for _, driver := range slices.Sorted(maps.Keys(limits)) {
		c.Spec.Drivers = append(c.Spec.Drivers, storagev1.CSINodeDriver{
			Name: driver, NodeID: m.name, Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(int32(limits[driver]))},
		})
	}
	b.snapshot.CSINodes = append(b.snapshot.CSINodes, c)
}
