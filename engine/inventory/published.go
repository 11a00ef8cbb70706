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

// readSlices are those that were read last.
type readSlices struct {
	of        []*resourcev1.ResourceSlice
	published *dra.Published
}

// PublishedIn is what drivers have published in the snapshot. Several deciders ask for it in each pass: it is read again only where the
// ResourceSlices are others.
func (cache *Cache) PublishedIn(s *engine.Snapshot) *dra.Published {
	known := KeptBy[readSlices](cache)
	if known.published == nil || !slices.Equal(known.of, s.ResourceSlices) {
		*known = readSlices{s.ResourceSlices, dra.Publish(s.ResourceSlices)}
	}
	return known.published
}

// WrittenDevices is what is written on a pool of the devices that its machines were seen to have.
type WrittenDevices struct {
	// For stands for the pool's template: what was learned of other machines does not count.
	For   string      `json:"for"`
	Types dra.Learned `json:"types"`
}

// MostLearned is how long the text may be, in bytes.
const MostLearned = 64 << 10

// LearnedDevices is what is written on the pool of the machines that its template, which has the hash, makes; nothing that cannot be read.
func LearnedDevices(pool *v1.NodePool, hash string) dra.Learned {
	var w WrittenDevices
	text := pool.Annotations[v1.LearnedDevicesAnnotationKey]
	if text == "" || len(text) > MostLearned || json.Unmarshal([]byte(text), &w) != nil || w.For != hash {
		return nil
	}
	return w.Types
}

// ExpectedDevices are the pools of devices that drivers are expected to publish on a machine of the type that the NodePool starts: what the
// catalog says of a driver, or else what is written on the pool of other nodes. Either of the pool and the type in the catalog may be nil.
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
