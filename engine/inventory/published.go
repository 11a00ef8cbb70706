package inventory

import (
	"encoding/json"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
)

// readSlices holds the ResourceSlices that were read last, with the result.
type readSlices struct {
	of        []*resourcev1.ResourceSlice
	published *dra.Published
}

// PublishedIn returns the devices that drivers have published in the snapshot. Several deciders need them in each pass, so they are read again only
// if the ResourceSlices have changed.
func (cache *Cache) PublishedIn(s *engine.Snapshot) *dra.Published {
	known := KeptBy[readSlices](cache)
	if known.published == nil || !slices.Equal(known.of, s.ResourceSlices) {
		*known = readSlices{s.ResourceSlices, dra.Publish(s.ResourceSlices)}
	}
	return known.published
}

// WrittenDevices is the text on a pool about the devices that its machines were seen to have.
type WrittenDevices struct {
	// For is the hash of the pool's template: devices of machines from other templates are ignored.
	For   string      `json:"for"`
	Types dra.Learned `json:"types"`
}

// MostLearned is the greatest length of the text, in bytes.
const MostLearned = 64 << 10

// LearnedDevices returns the devices in the pool's text for machines of its template, which has this hash. It returns nil if the text cannot be
// read.
func LearnedDevices(pool *v1.NodePool, hash string) dra.Learned {
	var w WrittenDevices
	text := pool.Annotations[v1.LearnedDevicesAnnotationKey]
	if text == "" || len(text) > MostLearned || json.Unmarshal([]byte(text), &w) != nil || w.For != hash {
		return nil
	}
	return w.Types
}

// ExpectedDevices returns the device pools that drivers should publish on a machine of the type that the NodePool starts. It takes them from the
// catalog. For drivers that the catalog does not name, it takes the devices learned from other nodes of the pool. The pool and the catalog's type
// may be nil.
func ExpectedDevices(pool *v1.NodePool, kind string, sold *engine.InstanceType) (out []device.Template) {
	if sold != nil {
		out = slices.Clone(sold.Claimable)
	}
	if pool == nil {
		return out
	}
	said := len(out)
	for _, t := range LearnedDevices(pool, pool.Hash())[kind] {
		if !slices.ContainsFunc(out[:said], func(o device.Template) bool { return o.Driver == t.Driver }) {
			out = append(out, t)
		}
	}
	return out
}
