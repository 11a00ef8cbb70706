package inventory

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// offersRead keeps the offers of the last pass's classes, because most catalogs stay from pass to pass and need no second reading.
type offersRead struct {
	classes []engine.Class
	offers  []engine.ClassOffers
}

// OffersOf returns the offers of the classes, in their order. It reads only catalogs that were not among those of its last call with the
// cache.
func OffersOf(classes []engine.Class, cache *Cache) []engine.ClassOffers {
	return KeptBy[offersRead](cache).of(classes)
}

func (r *offersRead) of(classes []engine.Class) []engine.ClassOffers {
	out := make([]engine.ClassOffers, len(classes))
	for i := range classes {
		if k := slices.IndexFunc(r.classes, func(c engine.Class) bool { return sameCatalog(c, classes[i]) }); k >= 0 {
			out[i] = r.offers[k]
		} else {
			out[i] = offersOf(classes[i].InstanceTypes)
			for _, pool := range classes[i].Pools {
				out[i].Types += " " + pool
			}
		}
		out[i].Ref, out[i].Usable = classes[i].Ref, classes[i].Problem == ""
	}
	r.classes, r.offers = classes, out
	return out
}

// sameCatalog reports whether the classes share one list of types, for the same pools.
func sameCatalog(a, b engine.Class) bool {
	return slices.Equal(a.Pools, b.Pools) && len(a.InstanceTypes) == len(b.InstanceTypes) && (len(a.InstanceTypes) == 0 || &a.InstanceTypes[0] == &b.InstanceTypes[0])
}

func offersOf(types []engine.InstanceType) engine.ClassOffers {
	var out engine.ClassOffers
	d := kube.NewDigest()
	n := 0
	for _, t := range types {
		d = kube.DigestMap(d.Text(t.Name), t.Labels, withTexts)
		d = kube.DigestMap(kube.DigestMap(d, t.Capacity, withAmount), t.Overhead, withAmount)
		d = kube.DigestMap(kube.DigestMap(d, t.AttachLimits, kube.Digest.Number), t.AttachShared, kube.Digest.Number)
		d = d.Number(len(t.Offerings))
		for _, o := range t.Offerings {
			d = d.Text(o.Zone).Text(o.CapacityType).Text(o.Reservation).Text(strconv.FormatFloat(o.NodePrice(0), 'g', -1, 64))
			d = kube.DigestMap(d, o.Labels, kube.Digest.Text)
			if o.SoldOut {
				out.SoldOut = append(out.SoldOut, n)
			}
			if o.Reservation != "" {
				out.Slots = append(out.Slots, o.Slots)
			}
			n++
		}
	}
	out.Types = d.String()
	return out
}

// OffersOfCommitments returns commitments in the form of a class's offers. Of the units that a commitment has left, it keeps only the order of
// magnitude (powers of two), because a removed machine adds little to a large rest.
func OffersOfCommitments(bill *Bill) engine.ClassOffers {
	d := kube.NewDigest()
	for _, c := range bill.Commitments {
		d = d.Text(fmt.Sprintf("%+v", *c.Commitment))
	}
	out := engine.ClassOffers{Usable: true, Types: d.String()}
	for _, left := range bill.Left {
		out.Slots = append(out.Slots, bits.Len64(uint64(left*1000)))
	}
	return out
}

// SellNoMore reports whether the classes sell the same offerings as before or fewer, at the same prices.
func SellNoMore(before, after []engine.ClassOffers) bool {
	return slices.EqualFunc(before, after, func(a, b engine.ClassOffers) bool {
		return a.Ref == b.Ref && (a.Usable || !b.Usable) && a.Types == b.Types &&
			!slices.ContainsFunc(a.SoldOut, func(n int) bool { _, still := slices.BinarySearch(b.SoldOut, n); return !still }) &&
			slices.EqualFunc(a.Slots, b.Slots, func(x, y int) bool { return x >= y })
	})
}

func withTexts(d kube.Digest, values []string) kube.Digest {
	for _, v := range values {
		d = d.Text(v)
	}
	return d.Number(len(values))
}

func withAmount(d kube.Digest, q resource.Quantity) kube.Digest { return d.Text(q.String()) }
