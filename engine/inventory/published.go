package inventory

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/dra"
)

// readSlices are those that were read last.
type readSlices struct {
	of        []*resourcev1.ResourceSlice
	published *dra.Published
}

// PublishedIn is what drivers have published in the snapshot. Several deciders ask for it in each pass: it is read again only where the
// ResourceSlices are others.
func (m *Cache) PublishedIn(s *engine.Snapshot) *dra.Published {
	known := KeptBy[readSlices](m)
	if known.published == nil || !slices.Equal(known.of, s.ResourceSlices) {
		*known = readSlices{s.ResourceSlices, dra.Publish(s.ResourceSlices)}
	}
	return known.published
}
