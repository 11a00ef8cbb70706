package overlay

import (
	"maps"
	"slices"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// Memo remembers the last Result. While overlays, pools, catalogs and sightings stay the same, the corrected catalogs are the same slices, and
// nothing is computed again. The zero value remembers nothing. Only one goroutine at a time may use a Memo.
type Memo struct {
	overlays []*v1alpha1.NodeOverlay
	pools    []*v1.NodePool
	classes  []engine.Class
	seen     []Sighting
	result   *Result
}

// Lay is like Apply, but returns the whole Result.
func (m *Memo) Lay(s *engine.Snapshot) *Result {
	listed, overlays, pools, seen := s.ListedClasses(), kube.ByName(s.NodeOverlays), kube.ByName(s.NodePools), Seen(s)
	if m.result == nil || !slices.EqualFunc(m.overlays, overlays, sameOverlay) || !slices.EqualFunc(m.pools, pools, samePool) ||
		!slices.EqualFunc(m.classes, listed, sameClass) || !slices.EqualFunc(m.seen, seen, sameSighting) {
		m.overlays, m.pools, m.classes, m.seen = overlays, pools, listed, seen
		m.result = Correct(overlays, pools, listed, seen)
	}
	s.Classes = m.result.In(listed)
	return m.result
}

func sameOverlay(a, b *v1alpha1.NodeOverlay) bool {
	return a == b || a.UID == b.UID && a.Name == b.Name && a.ResourceVersion != "" && a.ResourceVersion == b.ResourceVersion
}

// samePool reports whether the pools are the same for overlays.
func samePool(a, b *v1.NodePool) bool {
	x, y := &a.Spec.Template, &b.Spec.Template
	if (x.Spec.NodeClassRef == nil) != (y.Spec.NodeClassRef == nil) {
		return false
	}
	return a == b || a.Name == b.Name && maps.Equal(x.Labels, y.Labels) && (x.Spec.NodeClassRef == nil || *x.Spec.NodeClassRef == *y.Spec.NodeClassRef)
}

// sameClass reports whether the classes have the same slice of instance types.
func sameClass(a, b engine.Class) bool {
	return a.Ref == b.Ref && len(a.InstanceTypes) == len(b.InstanceTypes) && (len(a.InstanceTypes) == 0 || &a.InstanceTypes[0] == &b.InstanceTypes[0])
}
