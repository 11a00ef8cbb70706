package disruption

import (
	"encoding/binary"
	"hash"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
)

// offersRead keeps what the classes of the last pass sell: a catalog is read once, and most stay from pass to pass.
type offersRead struct {
	classes []engine.Class
	offers  []engine.ClassOffers
}

// of is what the classes sell, in their order.
func (r *offersRead) of(classes []engine.Class) []engine.ClassOffers {
	out := make([]engine.ClassOffers, len(classes))
	for i := range classes {
		if k := slices.IndexFunc(r.classes, func(c engine.Class) bool { return sameCatalog(c, classes[i]) }); k >= 0 {
			out[i] = r.offers[k]
		} else {
			out[i] = offersOf(classes[i].InstanceTypes)
		}
		out[i].Ref, out[i].Usable = classes[i].Ref, classes[i].Problem == ""
	}
	r.classes, r.offers = classes, out
	return out
}

// sameCatalog reports whether the classes have the very same list.
func sameCatalog(a, b engine.Class) bool {
	return len(a.InstanceTypes) == len(b.InstanceTypes) && (len(a.InstanceTypes) == 0 || &a.InstanceTypes[0] == &b.InstanceTypes[0])
}

func offersOf(types []engine.InstanceType) engine.ClassOffers {
	var out engine.ClassOffers
	h := digest{Hash64: fnv.New64a()}
	n := 0
	for _, t := range types {
		h.text(t.Name)
		writeMap(h, t.Labels, func(values []string) { h.list(values) })
		h.amounts(t.Capacity)
		h.amounts(t.Overhead)
		writeMap(h, t.AttachLimits, h.number)
		writeMap(h, t.AttachShared, h.number)
		h.number(len(t.Offerings))
		for _, o := range t.Offerings {
			h.list([]string{o.Zone, o.CapacityType, o.Reservation, strconv.FormatFloat(o.Price, 'g', -1, 64)})
			writeMap(h, o.Labels, h.text)
			if o.SoldOut {
				out.SoldOut = append(out.SoldOut, n)
			}
			if o.Reservation != "" {
				out.Slots = append(out.Slots, o.Slots)
			}
			n++
		}
	}
	out.Types = h.String()
	return out
}

// noMore reports whether the classes sell what they sold before or less, at the same prices.
func noMore(before, after []engine.ClassOffers) bool {
	return slices.EqualFunc(before, after, func(a, b engine.ClassOffers) bool {
		return a.Ref == b.Ref && (a.Usable || !b.Usable) && a.Types == b.Types &&
			!slices.ContainsFunc(a.SoldOut, func(n int) bool { _, still := slices.BinarySearch(b.SoldOut, n); return !still }) &&
			slices.EqualFunc(a.Slots, b.Slots, func(x, y int) bool { return x >= y })
	})
}

// digest is a hash of texts and numbers of which each says where it ends.
type digest struct{ hash.Hash64 }

func (d digest) String() string { return strconv.FormatUint(d.Sum64(), 36) }

func (d digest) number(n int) {
	var word [8]byte
	_, _ = d.Write(binary.LittleEndian.AppendUint64(word[:0], uint64(n)))
}

func (d digest) text(s string) {
	d.number(len(s))
	_, _ = io.WriteString(d, s)
}

func (d digest) list(values []string) {
	d.number(len(values))
	for _, v := range values {
		d.text(v)
	}
}

func (d digest) amounts(list corev1.ResourceList) {
	writeMap(d, list, func(q resource.Quantity) { d.text(q.String()) })
}

// writeMap writes the map in order of its keys.
func writeMap[K ~string, V any](d digest, m map[K]V, value func(V)) {
	d.number(len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		d.text(string(key))
		value(m[key])
	}
}
